# shellcheck shell=bash
# The runner of these tests: what is wrong with a test script is a failure, too.

# runner SCRIPT: runs a test script of its own, in a tree of its own
runner() {
    [ -n "$case_name" ] || return 0
    mkdir -p tree/tests/cli
    cp "$root/tests/cli/run.sh" tree/tests/cli/
    printf '%s\n' "$1" >tree/tests/cli/test_x.sh
    status=0
    bash tree/tests/cli/run.sh "$linformer" >out 2>err || status=$?
}

begin passes && {
    runner 'begin a
run --version
expect_status 0
begin b && { expect_nothing_here=1; }'
    expect_status 0
    expect_out "2 passed, 0 failed"
}

begin syntax_error && {
    runner 'begin a
run --version
begin b && {
run --version'
    expect_status 1
    expect_out "FAIL x: the script ended with status"
    expect_out " passed, 1 failed"
}

begin misspelt_expectation && {
    runner 'begin a
run --version
expect_satus 0
begin b
run --version
expect_status 0'
    expect_status 1
    expect_out "x/a: no such command: expect_satus"
    expect_out "1 passed, 1 failed"
}

begin no_case && {
    runner 'expect_status 0'
    expect_status 1
    expect_out "begins no case"
}

begin failed_expectation && {
    runner 'begin a
run --version
expect_status 3'
    expect_status 1
    expect_out "exit status 0, wanted 3"
    expect_out "0 passed, 1 failed"
}
