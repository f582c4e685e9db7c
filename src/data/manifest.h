/* manifest.json: what a tokens folder holds and what it was made of.  JSON, written by
 * manifest_save:
 *   {"format": "linformer tokens", "version": 1, "tokenizer_hash": "<hex>", "vocab": n,
 *    "normalizer": "nmt_nfkc", "data_hash": "<hex>", "complete": true, "train": PART,
 *    "valid": PART}
 *   PART:  {"unigram_entropy": nats, TOTALS, "shards": [SHARD, ...]}
 *   SHARD: {"tokens_file": name in the folder, "text_path", "text_size",
 *           "text_mtime_ns": "<decimal>", "text_hash": "<hex>", "payload_hash": "<hex>", TOTALS}
 *   TOTALS: the members of TextTotals, whole numbers
 * "complete" false: a preparation that ended early; the shards that were ready, without totals.
 * Older files lack the member and are complete.
 * 64-bit numbers that JSON readers would round are strings.  A change of the preparation that gives
 * other tokens raises the version, so that older folders count as stale. */
#ifndef MANIFEST_H
#define MANIFEST_H

#include "prepare.h"

enum { MANIFEST_VERSION = 1 };
#define MANIFEST_NAME "manifest.json"
#define TOKENS_ENDING ".tok"

/* The shards that are ready. */
bool manifest_save(const Manifest *manifest, const char *folder, Err *err);
void manifest_shard_free(ManifestShard *shard);

/* Adds one shard's totals. */
void text_totals_add(TextTotals *sum, const TextTotals *more);

#endif
