#!/bin/sh
# Includes go downward only, and each third-party header stays with its owner.
#
#   cli -> lab -> train -> model -> kernels -> base      data -> config -> base      train, lab and cli also use data
#
# A header in include/ belongs to the folder of the source file of the same name (x.h: x.c, or else x_*.c), or to the
# folder that header_only names.
set -eu
cd "$(dirname "$0")/.."

{
    find include src -name '*.[ch]' -o -name '*.cc' | sort | sed 's/^/file /'
    find include src -name '*.[ch]' -o -name '*.cc' | sort | xargs grep -nE '^[[:space:]]*#[[:space:]]*include' /dev/null |
        sed 's/^\([^:]*:[0-9]*\):[[:space:]]*#[[:space:]]*include[[:space:]]*/include \1 /'
} | awk '
BEGIN {
    may["base"] = "base"
    may["config"] = "base config"
    may["data"] = "base config data"
    may["kernels"] = "base kernels"
    may["model"] = "base config kernels model"
    may["train"] = "base config data kernels model train"
    may["lab"] = "base config data kernels model train lab"
    may["cli"] = "base config data kernels model train lab cli"
    header_only["real"] = header_only["batch"] = header_only["utf8"] = header_only["precision"] = "base"
    header_only["vector_math"] = header_only["parallel"] = "kernels"

    # third-party headers and the sources that own them, as expressions
    owner["cblas\\.h"] = "src/kernels/(gemm|svd)\\.c|src/base/threads\\.c"
    owner["yaml\\.h"] = "src/config/.*"
    owner["sentencepiece.*"] = "src/data/tokenizer_spm\\.cc"
    owner["(zlib|zstd)\\.h"] = "src/data/shards\\.c"
    owner["xxhash\\.h"] = "src/base/io\\.c"
    owner["cJSON\\.h|cjson/.*"] = "src/(data|train|lab|cli)/.*"
}
function fault(where, what) {
    print where ": " what
    faults++
}
# The layer that owns include/NAME.h, or "".
function layer_of(name,    source) {
    if (name in header_only) return header_only[name]
    if (name in source_layer) return source_layer[name]
    for (source in source_layer) if (index(source, name "_") == 1) return source_layer[source]
    return ""
}
$1 == "file" {
    split($2, part, "/")
    if (part[1] == "src") {
        present[$2] = 1
        if ($2 ~ /\.(c|cc)$/) {
            name = part[3]
            sub(/\.[^.]*$/, "", name)
            source_layer[name] = part[2]
        }
        if (!(part[2] in may)) fault($2, "unknown folder, name it in scripts/check_layers.sh")
    } else {
        public[part[2]] = 1
    }
}
$1 == "include" {
    file = $2
    sub(/:.*/, "", file)
    split(file, part, "/")
    layer = part[2]
    if (part[1] == "include") {
        layer = part[2]
        sub(/\.h$/, "", layer)
        layer = layer_of(layer)
        if (layer == "") {
            if (!(file in told)) fault(file, "has no source of its name; name its folder in header_only of scripts/check_layers.sh")
            told[file] = 1
            next
        }
    }
    target = substr($3, 2, length($3) - 2)
    if ($3 ~ /^"/) {
        if (("src/" layer "/" target) in present && part[1] == "src") next
        if (!(target in public)) {
            fault($2, "\"" target "\" is neither in include/ nor beside it")
            next
        }
        name = target
        sub(/\.h$/, "", name)
        wanted = layer_of(name)
        if (wanted != "" && index(" " may[layer] " ", " " wanted " ") == 0) {
            fault($2, layer " includes \"" target "\" of " wanted "; it may include " may[layer])
        }
        checked++
    } else {
        for (header in owner) {
            if (target ~ "^(" header ")$" && file !~ "^(" owner[header] ")$") fault($2, "<" target "> belongs to " owner[header])
        }
    }
}
END {
    if (!checked) fault("check_layers.sh", "saw no include at all")
    if (faults) { print faults " includes break the layers"; exit 1 }
    print "layers hold: " checked " includes"
}'
