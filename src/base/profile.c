#include "profile.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"

static const char *const part_names[PROFILE_PARTS] = {
    [PROFILE_DATA] = "data",
    [PROFILE_EMBEDDING] = "embedding",
    [PROFILE_QKV] = "q, k, v",
    [PROFILE_SEQ_PROJECT] = "sequence projection",
    [PROFILE_ATTENTION] = "attention",
    [PROFILE_OUT] = "attention output",
    [PROFILE_FF1] = "ff1",
    [PROFILE_GELU] = "gelu",
    [PROFILE_FF2] = "ff2",
    [PROFILE_DROPOUT] = "residual, dropout",
    [PROFILE_LAYERNORM] = "layernorm",
    [PROFILE_HEAD] = "head",
    [PROFILE_DECODER] = "decoder",
    [PROFILE_LOSS] = "loss",
    [PROFILE_OPTIMIZER] = "optimizer",
};

void profile_start(Profile *profile) {
    if (profile) profile->mark = clock_now_s();
}

void profile_lap(Profile *profile, ProfilePart part, double operations, double bytes) {
    if (!profile) return;
    ProfileEntry *entry = &profile->parts[part];
    double now = clock_now_s();
    entry->laps++;
    entry->seconds += now - profile->mark;
    entry->operations += operations;
    entry->bytes += bytes;
    profile->mark = now;
}

void profile_clear(Profile *profile) {
    if (profile) memset(profile->parts, 0, sizeof profile->parts);
}

const char *profile_part_name(ProfilePart part) {
    assert(part < PROFILE_PARTS);
    return part_names[part];
}

bool profile_part_is_product(ProfilePart part) {
    static const bool is_product[PROFILE_PARTS] = {
        [PROFILE_QKV] = true,  [PROFILE_SEQ_PROJECT] = true, [PROFILE_ATTENTION] = true,
        [PROFILE_OUT] = true,  [PROFILE_FF1] = true,         [PROFILE_FF2] = true,
        [PROFILE_HEAD] = true, [PROFILE_DECODER] = true,
    };
    assert(part < PROFILE_PARTS);
    return is_product[part];
}

double profile_seconds(const Profile *profile) {
    double sum = 0;
    for (size_t i = 0; profile && i < PROFILE_PARTS; i++) sum += profile->parts[i].seconds;
    return sum;
}

/* The part of most time among those not yet named; PROFILE_PARTS if none took any. */
static size_t next_largest(const Profile *profile, const bool *named) {
    size_t best = PROFILE_PARTS;
    for (size_t i = 0; i < PROFILE_PARTS; i++) {
        double seconds = profile->parts[i].seconds;
        if (named[i] || !(seconds > 0)) continue;
        if (best == PROFILE_PARTS || seconds > profile->parts[best].seconds) best = i;
    }
    return best;
}

void profile_describe(char *out, size_t size, const Profile *profile) {
    bool named[PROFILE_PARTS] = {false};
    double all = profile_seconds(profile);
    size_t used = 0, part;
    snprintf(out, size, "nothing");
    while (all > 0 && used < size && (part = next_largest(profile, named)) < PROFILE_PARTS) {
        int length = snprintf(out + used, size - used, "%s%s %.1f%%", used ? ", " : "",
                              part_names[part], 100 * profile->parts[part].seconds / all);
        used += length > 0 ? (size_t)length : size;
        named[part] = true;
    }
}
