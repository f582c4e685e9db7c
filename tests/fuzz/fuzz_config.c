/* Any bytes as a config: refused with a message, or read; and what is read can be written and reads
 * back equal. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/config/loader.h"
#include "fuzz.h"

static void require(bool condition, const char *what) {
    if (condition) return;
    fprintf(stderr, "property violated: %s\n", what);
    abort();
}

int fuzz_one(const uint8_t *data, size_t size) {
    Config config, again;
    Err err = {0};
    if (!config_parse(&config, (const char *)data, size, "fuzz.yaml", &err)) {
        require(err.code == ERR_CONFIG, "a refusal is a config error");
        require(strncmp(err.msg, "fuzz.yaml:", 10) == 0 ||
                    strstr(err.msg, "the path is longer than"),
                "a refusal names the place");
        require(config.path == NULL && config.run_dir == NULL, "a refusal leaves nothing behind");
        return 0;
    }
    char *yaml = config_to_yaml(&config);
    require(yaml && config_from_yaml(&again, yaml, "again.yaml", &err),
            "what is written can be read");
    char *differences = config_differences(&config, &again), *second = config_to_yaml(&again);
    require(differences && differences[0] == '\0', "every key reads back equal");
    require(second && strcmp(second, yaml) == 0, "and is written the same");
    require(memcmp(config.model.k, again.model.k, sizeof config.model.k) == 0, "k of every layer");
    require(config.optimizer.lr == again.optimizer.lr && config.train.budget == again.train.budget,
            "numbers to the last bit");
    free(differences);
    free(second);
    free(yaml);
    config_free(&config);
    config_free(&again);
    return 0;
}
