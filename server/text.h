/* Text in place of ids: the BYTES tensors of a request become tensors of ids before it is checked,
 * and ids that are answered become BYTES. What clients see of a model then is in signature.h. Loop
 * thread; memory of a request is its arena. */
#ifndef SERVER_TEXT_H
#define SERVER_TEXT_H

#include "config/model_config.h"
#include "scheduler/unfold.h"
#include "server/request.h"
#include "server/vocabulary.h"

/* The tensors of a model that are text, by the model's own numbers. Immutable. */
struct srv_texts {
    const struct srv_vocabulary *inputs[CELL_TENSORS_MAX]; /* NULL: numbers */
    const struct srv_vocabulary *outputs[CELL_TENSORS_MAX];
    int64_t unknown; /* id of a word that is in no vocabulary; -1: a request with one is refused */
    bool has_start, has_end;
    int64_t start, end; /* ids before and behind those of a text that has steps, where they are */
    uint32_t n_vocabularies;
    struct srv_vocabulary *vocabularies[CFG_VOCABULARIES_MAX];
};

/* What config says of the model's tensors; its files stand in folder. *out is NULL when it names
 * none. INVALID_ARGUMENT: a tensor that is not there, that holds no ids, or more words than it has
 * ids; NOT_FOUND: no such file; RESOURCE_EXHAUSTED. */
enum base_status srv_texts_load(const struct cfg_model_config *config, const char *folder,
                                const struct cell_model *model, struct srv_texts **out,
                                struct base_error *error) __attribute__((warn_unused_result));
void srv_texts_free(struct srv_texts *texts); /* NULL is allowed */

/* What the texts of a request say beside their ids; NULL where it came without. */
struct srv_text_rows {
    /* By sequence: words of each row, and how many rows: of what all rows share one. */
    const uint32_t *steps[CELL_SEQUENCES_MAX];
    uint32_t n[CELL_SEQUENCES_MAX];
    const uint32_t *roots; /* of trees: the number of each text's root, in the order of the texts */
};

/* Replaces the request's BYTES tensors that are text by tensors of ids: [batch] texts by [batch,
 * time], as long as the longest, zeros behind a shorter one's words; [trees] bracketed texts by
 * leaves and children. INVALID_ARGUMENT names the input, the text and what is wrong. texts may be
 * NULL. */
enum base_status srv_texts_read(const struct srv_texts *texts, const struct cell_model *model,
                                struct srv_request *request, struct srv_text_rows *rows,
                                struct base_error *error);

/* Replaces the ids among request->outputs by texts. steps: by sequence, of each row (of each
 * hypothesis of a beam), where an output has a time axis. continues: behind those that begin the
 * answer. INTERNAL when an id has no text. texts
 * may be NULL. */
enum base_status srv_texts_write(const struct srv_texts *texts, const struct cell_model *model,
                                 struct srv_request *request, const uint32_t *const *steps,
                                 bool continues, struct base_error *error);

/* Of steps from..to - 1 that have been made: how many of them can be handed out, so that no text
 * ends within a character, or a word, of which the next steps have the rest. outputs: by the
 * model's number, as the device writes them; lengths: the steps that each row has so far; is_over:
 * that it gets no more. texts may be NULL. */
struct srv_texts_part {
    const struct sched_tensor *outputs;
    uint32_t n_rows, from, to;
    const uint32_t *lengths;
    const bool *is_over;
};
uint32_t srv_texts_whole(const struct srv_texts *texts, const struct cell_model *model,
                         const struct srv_texts_part *part);

/* Whether a model answers text: then srv_texts_write() wants steps. texts may be NULL. */
bool srv_texts_has_outputs(const struct srv_texts *texts);

/* ---- Between text.c, text_tree.c and text_write.c ---- */

/* Before each element of a BYTES tensor: its length, little-endian. */
#define SRV_TEXT_PREFIX_BYTES sizeof(uint32_t)

/* The tensor's number; -1: there is none of that name. */
int32_t srv_texts_tensor(const struct cell_tensor *tensors, uint32_t n, const char *name);

/* Element after element of a BYTES tensor. */
struct srv_strings {
    const struct srv_tensor *tensor;
    size_t at;      /* of the tensor's data */
    uint32_t index; /* of the next one */
};

/* The next string; false at the end. INVALID_ARGUMENT when the bytes are cut off. */
enum base_status srv_strings_next(struct srv_strings *strings, struct srv_word *out, bool *more,
                                  struct base_error *error);

/* Where a word stands, for messages: the input, and which of its texts. */
struct srv_text_place {
    const char *name;
    uint32_t index;
};

/* The id of a word, or of what is unknown, or INVALID_ARGUMENT. */
enum base_status srv_texts_id(const struct srv_texts *texts,
                              const struct srv_vocabulary *vocabulary, struct srv_text_place place,
                              struct srv_word word, int64_t *out, struct base_error *error);

/* Writes id as element i of a tensor of ids. */
void srv_texts_put(enum cell_dtype dtype, uint8_t *data, size_t i, int64_t id);

/* Trees written with brackets, (a (b c)): words are leaves, brackets inner nodes. request->inputs,
 * of which `strings` is one, become the model's two: leaves and children. */
enum base_status srv_texts_read_trees(const struct srv_texts *texts, const struct cell_model *model,
                                      const struct srv_tensor *strings, struct srv_request *request,
                                      struct srv_text_rows *rows, struct base_error *error);

#endif
