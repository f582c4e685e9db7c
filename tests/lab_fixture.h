/* A small untrained model with a real tokenizer, as a checkpoint file. */
#ifndef LAB_FIXTURE_H
#define LAB_FIXTURE_H

#include "config.h"
#include "loaded_model.h"
#include "task_file.h"

/* Two layers of width 12, n 24, k 6 and 5; the tokenizer of data_fixture_train; weights large
 * enough that predictions differ.  The checkpoint is model.ckpt of the temporary folder.  Ends the
 * test on failure; free with loaded_model_close. */
void lab_fixture_model(LoadedModel *out);

/* Only the file, with rows of the embedding for `vocab` pieces (0: as the tokenizer has). */
void lab_fixture_save(size_t vocab);

/* Writes the checkpoint `name` of the temporary folder: an untrained model of the configuration,
 * whose vocabulary and classes are set; of kind "classifier" where labels is not NULL, else
 * "weights". */
void lab_fixture_write(const char *name, const Config *config, const Tokenizer *tokenizer,
                       const LabelSet *labels);

/* The tokenizer of data_fixture_train. */
Tokenizer *lab_fixture_tokenizer(void);

/* Opens the checkpoint `name` of the temporary folder. */
void lab_fixture_open(LoadedModel *out, const char *name);

#endif
