#include "spm_model.h"

#include <string.h>

#include "io.h"

/* A part of a protocol buffer still to be read. */
typedef struct Field {
    unsigned number, type;     /* type: 0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes */
    uint64_t value;            /* of a varint */
    const unsigned char *data; /* of type 2 */
    size_t size;
} Field;

typedef struct Cursor {
    const unsigned char *at, *end;
} Cursor;

static bool read_varint(uint64_t *out, Cursor *c) {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (c->at == c->end) return false;
        unsigned char byte = *c->at++;
        value |= (uint64_t)(byte & 0x7F) << shift;
        if (!(byte & 0x80)) {
            *out = value;
            return true;
        }
    }
    return false;
}

static bool read_field(Field *out, Cursor *c) {
    uint64_t key, size = 0;
    if (!read_varint(&key, c)) return false;
    *out = (Field){.number = (unsigned)(key >> 3), .type = (unsigned)(key & 7)};
    switch (out->type) {
    case 0: return read_varint(&out->value, c);
    case 1: size = 8; break;
    case 2:
        if (!read_varint(&size, c)) return false;
        break;
    case 5: size = 4; break;
    default: return false;
    }
    if (size > (size_t)(c->end - c->at)) return false;
    out->data = c->at;
    out->size = (size_t)size;
    c->at += size;
    return true;
}

/* A space inside a piece (sentencepiece writes U+2581 for it) makes the words around it one unit of
 * the encoder. */
static bool piece_crosses_space(const unsigned char *piece, size_t size) {
    for (size_t i = 1; i + 3 <= size; i++) {
        if (memcmp(piece + i, "\xE2\x96\x81", 3) == 0) return true;
    }
    return false;
}

static bool read_piece(SpmModel *model, Cursor c) {
    enum { PIECE_TEXT = 1, PIECE_TYPE = 3, TYPE_USER_DEFINED = 4 };
    Field f;
    while (c.at < c.end) {
        if (!read_field(&f, &c)) return false;
        if (f.number == PIECE_TEXT && f.type == 2 && piece_crosses_space(f.data, f.size)) {
            model->words_are_separate = false;
        }
        if (f.number == PIECE_TYPE && f.type == 0 && f.value == TYPE_USER_DEFINED)
            model->has_user_symbols = true;
    }
    model->pieces++;
    return true;
}

static bool read_trainer(SpmModel *model, Cursor c) {
    enum { MODEL_TYPE = 3, TYPE_BPE = 2 };
    Field f;
    while (c.at < c.end) {
        if (!read_field(&f, &c)) return false;
        if (f.number == MODEL_TYPE && f.type == 0) model->is_bpe = f.value == TYPE_BPE;
    }
    return true;
}

/* The character map: u32 LE bytes of the trie, a double-array trie of u32 LE units (as darts-clone
 * builds them), then replacement texts, each ended by a NUL.  In a unit, bit 31 marks a value, bit
 * 8 that a value hangs below, and bits 9..30 give the offset by which its children's positions are
 * reached with exclusive or. */
static const char *check_character_map(const unsigned char *data, size_t size) {
    if (size == 0) return NULL; /* no replacements at all: the identity */
    if (size < 5) return "its character map is cut off";
    size_t trie = io_get_u32(data);
    if (trie % 4 || trie > size - 4) return "its character map is cut off";
    const unsigned char *units = data + 4;
    size_t count = trie / 4, texts = size - 4 - trie;
    if (count < 256 || texts == 0 || data[size - 1] != 0) return "its character map is cut off";
    for (size_t i = 0; i < count; i++) {
        uint32_t unit = io_get_u32(units + 4 * i);
        if (unit >> 31) continue;
        size_t child = i ^ ((size_t)(unit >> 10) << ((unit & 0x200) >> 6));
        if ((child | 0xFF) >= count) return "its character map points outside itself";
        bool has_value = unit >> 8 & 1;
        if (has_value && (io_get_u32(units + 4 * child) & 0x7FFFFFFF) >= texts) {
            return "its character map points outside itself";
        }
    }
    return NULL;
}

static const char *read_normalizer(SpmModel *model, Cursor c) {
    enum {
        NAME = 1,
        CHARACTER_MAP = 2,
        DUMMY_PREFIX = 3,
        REMOVE_EXTRA_SPACES = 4,
        ESCAPE_SPACES = 5
    };
    Field f;
    while (c.at < c.end) {
        if (!read_field(&f, &c)) return "its normaliser's settings are cut off";
        if (f.type == 2 && f.number == NAME) {
            size_t size = f.size < sizeof model->normalizer ? f.size : sizeof model->normalizer - 1;
            memcpy(model->normalizer, f.data, size);
            model->normalizer[size] = 0;
        } else if (f.type == 2 && f.number == CHARACTER_MAP) {
            const char *fault = check_character_map(f.data, f.size);
            if (fault) return fault;
        } else if (f.type == 0 && f.number == DUMMY_PREFIX) {
            model->dummy_prefix = f.value != 0;
        } else if (f.type == 0 && f.number == REMOVE_EXTRA_SPACES) {
            model->remove_extra_spaces = f.value != 0;
        } else if (f.type == 0 && f.number == ESCAPE_SPACES && f.value == 0) {
            model->words_are_separate = false;
        }
    }
    return NULL;
}

bool spm_model_read(SpmModel *out, const unsigned char *data, size_t size, Err *err) {
    enum { PIECES = 1, TRAINER = 2, NORMALIZER = 3 };
    *out =
        (SpmModel){.dummy_prefix = true, .remove_extra_spaces = true, .words_are_separate = true};
    bool has_trainer = false, has_normalizer = false;
    if (size == 0) return err_set(err, ERR_FAILED, "empty, wanted a sentencepiece .model file");
    Cursor c = {data, data + size};
    Field f = {0};
    while (c.at < c.end) {
        size_t offset = (size_t)(c.at - data);
        const char *fault = NULL;
        if (!read_field(&f, &c))
            fault = "a field is cut off or malformed";
        else if (f.type == 2 && f.number == PIECES &&
                 !read_piece(out, (Cursor){f.data, f.data + f.size})) {
            fault = "a piece is malformed";
        } else if (f.type == 2 && f.number == TRAINER) {
            has_trainer = true;
            if (!read_trainer(out, (Cursor){f.data, f.data + f.size})) {
                fault = "the trainer's settings are malformed";
            }
        } else if (f.type == 2 && f.number == NORMALIZER) {
            has_normalizer = true;
            fault = read_normalizer(out, (Cursor){f.data, f.data + f.size});
        }
        if (fault) {
            return err_set(err, ERR_FAILED,
                           "not a whole sentencepiece .model file: %s at byte %zu of %zu", fault,
                           offset, size);
        }
    }
    /* the settings follow the pieces, so a file cut between two pieces lacks them */
    if (out->pieces == 0 || !has_trainer || !has_normalizer) {
        return err_set(err, ERR_FAILED,
                       "not a whole sentencepiece .model file: %zu pieces%s%s in %zu bytes: "
                       "truncated, or a file of "
                       "another kind",
                       out->pieces, has_trainer ? "" : ", no trainer settings",
                       has_normalizer ? "" : ", no normaliser settings", size);
    }
    return true;
}
