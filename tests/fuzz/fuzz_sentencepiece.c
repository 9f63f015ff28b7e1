/* A model file of SentencePiece's: a byte with the length of a text, the text, the file.
 *
 * Beside not crashing: each id of the text is one of the model's, and what they are written as is
 * as long as was said before. */
#include "base/assert.h"
#include "base/mem.h"
#include "server/sentencepiece.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char path[] = "/tmp/cellbatch-fuzz-XXXXXX";
static int file = -1;

static void remove_file(void)
{
    (void)unlink(path);
}

static void write_file(const uint8_t *bytes, size_t length)
{
    if (file < 0) {
        file = mkstemp(path);
        base_assert(file >= 0 && atexit(remove_file) == 0);
    }
    base_assert(ftruncate(file, 0) == 0);
    base_assert(pwrite(file, bytes, length, 0) == (ssize_t)length);
}

static void check_ids(const struct srv_sentencepiece *model, const struct base_buf *ids)
{
    struct srv_sentencepiece_text counting = {0};
    struct srv_sentencepiece_text text = {0};
    for (size_t at = 0; at < ids->length; at += sizeof(int32_t)) {
        int32_t id;
        memcpy(&id, ids->data + at, sizeof id);
        base_assert(id >= 0 && (uint32_t)id < srv_sentencepiece_count(model));
        const size_t length = srv_sentencepiece_add(model, &counting, (uint32_t)id, NULL);
        char *to = base_alloc(length + 1);
        base_assert(to != NULL);
        base_assert(srv_sentencepiece_add(model, &text, (uint32_t)id, to) == length);
        base_free(to);
    }
    (void)srv_sentencepiece_end(&text, NULL);
}

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct srv_sentencepiece *model = NULL;
    struct base_error error;
    struct base_buf ids;
    if (size == 0 || size - 1 < data[0]) {
        return 0;
    }
    const struct srv_word text = {.text = (const char *)data + 1, .length = data[0]};
    write_file(data + 1 + text.length, size - 1 - text.length);
    if (srv_sentencepiece_load(path, "model", &model, &error) == BASE_OK) {
        base_buf_init(&ids, 1u << 20);
        if (srv_sentencepiece_encode(model, text, &ids, &error) == BASE_OK) {
            check_ids(model, &ids);
        }
        base_buf_release(&ids);
        srv_sentencepiece_free(model);
    }
    return 0;
}
