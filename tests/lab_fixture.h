/* A small untrained model with a real tokenizer, as a checkpoint file. */
#ifndef LAB_FIXTURE_H
#define LAB_FIXTURE_H

#include "config.h"
#include "loaded_model.h"

/* Two layers of width 12, n 24, k 6 and 5; the tokenizer of data_fixture_train; weights large
 * enough that predictions differ.  The checkpoint is model.ckpt of the temporary folder.  Ends the
 * test on failure; free with loaded_model_close. */
void lab_fixture_model(LoadedModel *out);

/* Only the file, with rows of the embedding for `vocab` pieces (0: as the tokenizer has). */
void lab_fixture_save(size_t vocab);

#endif
