/* The only C++ here: sentencepiece behind include/tokenizer.h.  No exception leaves a function with
 * C linkage. */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <unordered_map>
#include <vector>

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

extern "C" {
#include "tokenizer.h"

#include "spm_model.h"
#include "spm_shim.h"
#include "utf8.h"
}

namespace spm = sentencepiece;

struct Tokenizer {
    spm::SentencePieceProcessor processor;
    std::string bytes;
    SpmModel model;
    uint64_t hash;
};

struct TokenizerCache {
    struct Tokens {
        size_t first, count;
    };
    std::unordered_map<std::string, Tokens> words;
    std::vector<int> ids; /* of all words */
};

namespace {

const size_t CACHED_WORDS = 1 << 15, CACHED_WORD_BYTES = 48; /* so a cache stays below 10 MB */
const size_t MODEL_LIMIT = (size_t)1 << 28;
const int TRAINING_THREADS = 16; /* whatever the processors are: see spm_train */
const char REMEDY[] = "train one with `linformer tokenizer`, or with spm_train --bos_id=0 "
                      "--pad_id=1 --eos_id=2 --unk_id=3 "
                      "--control_symbols='<mask>' --byte_fallback=true";
const char *const SPECIALS[TOKEN_SPECIALS] = {"<s>", "<pad>", "</s>", "<unk>", "<mask>"};
const char REPLACEMENT[] = "\xEF\xBF\xBD"; /* U+FFFD, for what is no text */
const char SPACE[] = "\xE2\x96\x81";       /* U+2581, which stands for a space in pieces */

/* sentencepiece puts its source file and line before what it says: "src/x.cc(12) [condition]
 * message". */
std::string status_text(const spm::util::Status &status) {
    std::string text = status.ToString();
    size_t end = text.find("] ");
    return end == std::string::npos ? text : text.substr(end + 2);
}

bool check_specials(const spm::SentencePieceProcessor &p, const char *name, Err *err) {
    int pieces = p.GetPieceSize();
    for (int id = 0; id < TOKEN_SPECIALS; id++) {
        std::string found = id < pieces ? p.IdToPiece(id) : std::string();
        bool right_kind = id < pieces && (id == TOKEN_UNK ? p.IsUnknown(id) : p.IsControl(id));
        if (found != SPECIALS[id] || !right_kind) {
            return err_set(
                err, ERR_FAILED, "%s: id %d is %s%.40s%s, wanted the %s %s; %s", name, id,
                id < pieces ? "the piece '" : "missing", found.c_str(), id < pieces ? "'" : "",
                id == TOKEN_UNK ? "unknown symbol" : "control symbol", SPECIALS[id], REMEDY);
        }
    }
    if (pieces == TOKEN_SPECIALS) {
        return err_set(err, ERR_FAILED,
                       "%s: only the %d special pieces, nothing to encode text with; %s", name,
                       pieces, REMEDY);
    }
    return true;
}

bool load_bytes(Tokenizer **out, const void *data, size_t size, const char *name, Err *err) {
    SpmModel model;
    if (!spm_model_read(&model, static_cast<const unsigned char *>(data), size, err))
        return err_context(err, "%s", name);
    Tokenizer *t = new Tokenizer;
    t->bytes.assign(static_cast<const char *>(data), size);
    t->model = model;
    t->hash = io_hash(data, size);
    spm::util::Status status = t->processor.LoadFromSerializedProto(t->bytes);
    if (!status.ok()) {
        err_set(err, ERR_FAILED, "%s: sentencepiece refuses the model: %s", name,
                status_text(status).c_str());
        delete t;
        return false;
    }
    if (!check_specials(t->processor, name, err)) {
        delete t;
        return false;
    }
    *out = t;
    return true;
}

/* "<0x41>" -> "A" */
char byte_of_piece(const std::string &piece) {
    return piece.size() > 3 ? static_cast<char>(std::strtol(piece.c_str() + 3, nullptr, 16)) : 0;
}

/* Without NULs too, because callers get a C string. */
std::string valid_utf8(const std::string &text) {
    std::string out;
    const unsigned char *p = reinterpret_cast<const unsigned char *>(text.data());
    for (size_t i = 0; i < text.size();) {
        size_t length = utf8_length(p + i, text.size() - i);
        if (length && p[i] != 0)
            out.append(text, i, length);
        else
            out += REPLACEMENT;
        i += length ? length : 1;
    }
    return out;
}

/* Not processor.Decode: it drops control symbols, and the space that a piece after one begins with.
 */
std::string decode(const Tokenizer *t, const uint32_t *ids, size_t count) {
    const spm::SentencePieceProcessor &p = t->processor;
    std::string text;
    bool at_start = true; /* the space before the first word is the tokenizer's, not the text's */
    for (size_t i = 0; i < count; i++) {
        int id = static_cast<int>(ids[i]);
        if (ids[i] >= static_cast<uint32_t>(p.GetPieceSize())) {
            text += REPLACEMENT;
        } else if (id < TOKEN_SPECIALS) {
            /* a mask stands for a whole piece, most often with the space before it */
            if (id == TOKEN_MASK && !at_start) text += ' ';
            text += SPECIALS[id];
        } else if (p.IsByte(id)) {
            text += byte_of_piece(p.IdToPiece(id));
        } else {
            std::string piece = p.IdToPiece(id);
            for (size_t at = 0; (at = piece.find(SPACE, at)) != std::string::npos;)
                piece.replace(at, sizeof SPACE - 1, " ");
            text += at_start && !piece.empty() && piece[0] == ' ' ? piece.substr(1) : piece;
        }
        at_start = id == TOKEN_BOS && text.size() == sizeof "<s>" - 1;
    }
    return valid_utf8(text);
}

/* Appends the ids of one word, from the cache if it is there. */
spm::util::Status encode_word(std::vector<int> *out, const Tokenizer *t, TokenizerCache *cache,
                              const std::string &word) {
    auto known = cache->words.find(word);
    if (known != cache->words.end()) {
        auto first = cache->ids.begin() + static_cast<std::ptrdiff_t>(known->second.first);
        out->insert(out->end(), first, first + static_cast<std::ptrdiff_t>(known->second.count));
        return spm::util::Status();
    }
    std::vector<int> ids;
    spm::util::Status status = t->processor.Encode(word, &ids);
    if (!status.ok()) return status;
    out->insert(out->end(), ids.begin(), ids.end());
    if (word.size() > CACHED_WORD_BYTES) return status;
    if (cache->words.size() == CACHED_WORDS) { /* what is frequent comes back soon */
        cache->words.clear();
        cache->ids.clear();
    }
    cache->words[word] = {cache->ids.size(), ids.size()};
    cache->ids.insert(cache->ids.end(), ids.begin(), ids.end());
    return status;
}

spm::util::Status encode_text(std::vector<int> *out, const Tokenizer *t, TokenizerCache *cache,
                              const char *text, size_t size) {
    if (!cache) return t->processor.Encode(absl::string_view(text, size), out);
    std::string word;
    for (size_t at = 0; at < size;) {
        const void *space = std::memchr(text + at, ' ', size - at);
        size_t end = space ? static_cast<size_t>(static_cast<const char *>(space) - text) : size;
        if (end > at) {
            word.assign(text + at, end - at);
            spm::util::Status status = encode_word(out, t, cache, word);
            if (!status.ok()) return status;
        }
        at = end + 1;
    }
    return spm::util::Status();
}

class LineIterator : public spm::SentenceIterator {
  public:
    explicit LineIterator(const SpmTrainSpec *spec) : spec_(spec) {
        take();
    }
    bool done() const override {
        return next_ >= spec_->count;
    }
    void Next() override {
        next_++;
        take();
    }
    const std::string &value() const override {
        return line_;
    }
    spm::util::Status status() const override {
        return spm::util::Status();
    }

  private:
    void take() {
        if (!done()) line_.assign(spec_->lines[next_], spec_->sizes[next_]);
    }
    const SpmTrainSpec *spec_;
    size_t next_ = 0;
    std::string line_;
};

bool fail_training(const SpmTrainSpec *spec, const spm::util::Status &status, Err *err) {
    std::string text = status_text(status);
    size_t at = text.find("value <= ");
    if (at != std::string::npos) {
        return err_set(
            err, ERR_CONFIG,
            "tokenizer.vocab_size = %zu is too large for the sampled text; at most %ld is "
            "possible: lower it, or give more text (data.train, tokenizer.sample_bytes)",
            spec->vocab_size,
            std::strtol(text.c_str() + at + std::strlen("value <= "), nullptr, 10));
    }
    at = text.find("required_chars. ");
    size_t versus = text.find(" vs ");
    if (at != std::string::npos && versus != std::string::npos) {
        return err_set(
            err, ERR_CONFIG,
            "tokenizer.vocab_size = %zu is too small: the special pieces, 256 bytes and the "
            "text's characters alone are %ld",
            spec->vocab_size, std::strtol(text.c_str() + versus + 4, nullptr, 10));
    }
    return err_set(err, ERR_FAILED, "sentencepiece could not train the tokenizer: %s",
                   text.c_str());
}

bool train(Bytes *model, const SpmTrainSpec *spec, Err *err) {
    std::unordered_map<std::string, std::string> options = {
        {"model_type", spec->type == TOKENIZER_BPE ? "bpe" : "unigram"},
        {"vocab_size", std::to_string(spec->vocab_size)},
        {"bos_id", std::to_string(TOKEN_BOS)},
        {"pad_id", std::to_string(TOKEN_PAD)},
        {"eos_id", std::to_string(TOKEN_EOS)},
        {"unk_id", std::to_string(TOKEN_UNK)},
        {"control_symbols", SPECIALS[TOKEN_MASK]}, /* takes the first free id, 4 */
        {"byte_fallback", "true"},
        {"normalization_rule_name", SPM_NORMALIZER},
        {"max_sentence_length", std::to_string(SPM_LINE_LIMIT)},
        {"num_threads", std::to_string(TRAINING_THREADS)},
        {"minloglevel", "3"},
    };
    LineIterator lines(spec);
    std::string bytes;
    spm::util::Status status = spm::SentencePieceTrainer::Train(options, &lines, &bytes);
    if (!status.ok()) return fail_training(spec, status, err);
    model->data = static_cast<unsigned char *>(std::malloc(bytes.size() + 1));
    if (!model->data)
        return err_set(err, ERR_FAILED, "no memory for a model of %zu bytes", bytes.size());
    std::memcpy(model->data, bytes.c_str(), bytes.size() + 1);
    model->size = bytes.size();
    return true;
}

} // namespace

extern "C" {

bool spm_train(Bytes *model, const SpmTrainSpec *spec, Err *err) {
    *model = Bytes();
    try {
        return train(model, spec, err);
    } catch (const std::exception &e) {
        return err_set(err, ERR_FAILED, "training the tokenizer failed: %s", e.what());
    } catch (...) {
        return err_set(err, ERR_FAILED, "training the tokenizer failed");
    }
}

bool tokenizer_load_bytes(Tokenizer **out, const void *data, size_t size, const char *name,
                          Err *err) {
    *out = nullptr;
    try {
        return load_bytes(out, data, size, name, err);
    } catch (const std::exception &e) {
        return err_set(err, ERR_FAILED, "%s: cannot load the tokenizer: %s", name, e.what());
    } catch (...) {
        return err_set(err, ERR_FAILED, "%s: cannot load the tokenizer", name);
    }
}

bool tokenizer_load(Tokenizer **out, const char *path, Err *err) {
    *out = nullptr;
    Bytes file;
    if (!io_read_file(&file, path, MODEL_LIMIT, err)) return false;
    bool ok = tokenizer_load_bytes(out, file.data, file.size, path, err);
    io_bytes_free(&file);
    return ok;
}

void tokenizer_destroy(Tokenizer *tokenizer) {
    delete tokenizer;
}

size_t tokenizer_vocab_size(const Tokenizer *tokenizer) {
    return static_cast<size_t>(tokenizer->processor.GetPieceSize());
}

uint64_t tokenizer_hash(const Tokenizer *tokenizer) {
    return tokenizer->hash;
}

Bytes tokenizer_bytes(const Tokenizer *tokenizer) {
    Bytes b;
    b.data = reinterpret_cast<unsigned char *>(const_cast<char *>(tokenizer->bytes.data()));
    b.size = tokenizer->bytes.size();
    return b;
}

const char *tokenizer_normalizer(const Tokenizer *tokenizer) {
    return tokenizer->model.normalizer;
}

TokenizerType tokenizer_type(const Tokenizer *tokenizer) {
    return tokenizer->model.is_bpe ? TOKENIZER_BPE : TOKENIZER_UNIGRAM;
}

TokenizerCache *tokenizer_cache_create(const Tokenizer *tokenizer) {
    const SpmModel *m = &tokenizer->model;
    bool words_suffice = m->is_bpe && m->words_are_separate && m->dummy_prefix &&
                         m->remove_extra_spaces && !m->has_user_symbols &&
                         std::strcmp(m->normalizer, SPM_NORMALIZER) == 0;
    return words_suffice ? new (std::nothrow) TokenizerCache : nullptr;
}

void tokenizer_cache_destroy(TokenizerCache *cache) {
    delete cache;
}

bool tokenizer_encode_cached(const Tokenizer *tokenizer, TokenizerCache *cache, uint32_t **ids,
                             size_t *count, size_t *capacity, const char *text, size_t size,
                             Err *err) {
    *count = 0;
    try {
        std::vector<int> found;
        spm::util::Status status = encode_text(&found, tokenizer, cache, text, size);
        if (!status.ok())
            return err_set(err, ERR_FAILED, "sentencepiece: %s", status_text(status).c_str());
        if (found.size() > *capacity) {
            size_t wanted = found.size() + found.size() / 2;
            uint32_t *grown = static_cast<uint32_t *>(std::realloc(*ids, wanted * sizeof **ids));
            if (!grown) return err_set(err, ERR_FAILED, "no memory for %zu tokens", wanted);
            *ids = grown;
            *capacity = wanted;
        }
        for (size_t i = 0; i < found.size(); i++) (*ids)[i] = static_cast<uint32_t>(found[i]);
        *count = found.size();
        return true;
    } catch (const std::exception &e) {
        return err_set(err, ERR_FAILED, "encoding text failed: %s", e.what());
    } catch (...) {
        return err_set(err, ERR_FAILED, "encoding text failed");
    }
}

bool tokenizer_encode(const Tokenizer *tokenizer, uint32_t **ids, size_t *count, size_t *capacity,
                      const char *text, size_t size, Err *err) {
    return tokenizer_encode_cached(tokenizer, nullptr, ids, count, capacity, text, size, err);
}

char *tokenizer_decode(const Tokenizer *tokenizer, const uint32_t *ids, size_t count) {
    try {
        std::string text = decode(tokenizer, ids, count);
        char *out = static_cast<char *>(std::malloc(text.size() + 1));
        if (out) std::memcpy(out, text.c_str(), text.size() + 1);
        return out;
    } catch (...) {
        return nullptr;
    }
}

const char *tokenizer_piece(const Tokenizer *tokenizer, uint32_t id) {
    if (id >= tokenizer_vocab_size(tokenizer)) return "";
    return tokenizer->processor.IdToPiece(static_cast<int>(id)).c_str();
}

} // extern "C"
