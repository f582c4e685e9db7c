/* Masked-language-model loss of a trained model on text that was not prepared before. */
#ifndef TEXT_EVAL_H
#define TEXT_EVAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "err.h"
#include "evaluation.h"
#include "loaded_model.h"

typedef struct TextEvalOptions {
    size_t batch;     /* sequences at a time; 0: 8 */
    size_t sequences; /* so many, spread evenly over the text; 0: all */
    size_t threads;   /* that encode the text; 0: all this process may use */
} TextEvalOptions;

typedef struct TextScore {
    MlmScore mlm;
    double unigram_entropy; /* nats, of the text's tokens: what guessing by frequency costs */
    uint64_t documents, text_bytes;
} TextScore;

/* Encodes the text shards with the model's own tokenizer into token shards below `folder` (which
 * must exist; the caller removes it), packs them to n and scores them as training scores held-out
 * text (evaluation.h): models of one tokenizer are asked the same questions. */
bool text_evaluate(TextScore *out, const LoadedModel *model, const PathList *texts,
                   const char *folder, const TextEvalOptions *options, Err *err);

#endif
