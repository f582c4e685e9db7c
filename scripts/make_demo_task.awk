# Writes the demo's task, with the tables and functions of make_demo_text.awk and after its text:
#
#   awk ... -f make_demo_text.awk -f make_demo_task.awk demo_words.txt
#
# writes task-train.tsv and task-valid.tsv to the folder `out`: sentences of the same language, half of them as they
# should be (label "correct") and half with two neighbouring words exchanged ("swapped").  The words alone say nothing,
# only their order does.  No sentence is used twice, in either form, in both files together.

# Exchanges two neighbouring words that differ, the first word excepted; "" where there are none.
function swap_words(sentence,    count, word, i, kept) {
    sub(/\.$/, "", sentence)
    count = split(sentence, word, " ")
    i = 2 + below(count - 2)
    if (word[i] == word[i + 1]) return ""
    kept = word[i]
    word[i] = word[i + 1]
    word[i + 1] = kept
    sentence = word[1]
    for (i = 2; i <= count; i++) sentence = sentence " " word[i]
    return sentence "."
}

# A sentence that was not used before, of documents written for this.
function new_sentence(    count, words) {
    do {
        while (next_line > lines) {
            write_document()
            lines = split(text, line, "\n")
            next_line = 1
        }
        count = split(line[next_line++], words, " ")
        # the shortest have too few neighbours, and the words of a dictation have no order
    } while (count < 4 || line[next_line - 1] ~ / words aloud: / || line[next_line - 1] in used)
    used[line[next_line - 1]] = 1
    return line[next_line - 1]
}

function write_task(path, count, seed,    i, sentence, swapped) {
    state = seed
    lines = next_line = 0
    print "sentence\tlabel" > path
    for (i = 0; i < count; ) {
        sentence = new_sentence()
        swapped = swap_words(sentence)
        if (swapped == "") continue
        if (chance(50)) print sentence "\tcorrect" > path
        else print swapped "\tswapped" > path
        i++
    }
    if (close(path) != 0) { print path ": cannot be written" > "/dev/stderr"; exit 1 }
}

END {
    write_task(out "/task-train.tsv", 3000, 1818)
    write_task(out "/task-valid.tsv", 1000, 2718)
}
