/* What the tests of texts share: a server in this process whose models have vocabularies, each
 * beside a twin without, and requests in texts and in ids. One server at a time. */
#ifndef TESTS_SERVER_TEXT_SITE_H
#define TESTS_SERVER_TEXT_SITE_H

#include "server/vocabulary.h"
#include "tests/server/site.h"
#include "tests/util.h"

#define TEXTS_HIDDEN   12
#define TEXTS_CHILDREN 3

extern struct site texts_site;
extern char texts_folder[UTIL_PATH_BYTES];      /* its repository */
extern const char texts_sounds[], texts_tags[]; /* files of words */

void texts_setup(void); /* writes the models, opens the site */
void texts_teardown(void);
void texts_open_site(void);

/* A model NAME with `texts` in its settings and all vocabularies beside it, and NAME_ids without;
 * `write` writes both. */
void texts_write_twins(const char *name, const char *config, const char *texts,
                       void (*write)(const char *version));
void texts_write_labelled_tree(const char *version);
void texts_write_file(const char *model, const char *name, const char *contents);

/* A request without inputs, which are added one by one. */
void texts_begin(struct visit *visit, const char *model);
void texts_add(struct visit *visit, const char *name, const char *datatype, const void *data,
               size_t bytes);
struct srv_tensor *texts_shape(struct visit *visit, uint32_t rank, int64_t first,
                               int64_t second); /* of the one that was added last */

/* texts: NUL behind each, an empty one behind the last; how many. */
uint32_t texts_add_texts(struct visit *visit, const char *name, const char *texts);
void texts_add_ids(struct visit *visit, const char *name, uint32_t n, const int64_t *ids);

void texts_run(struct visit *visit);
void texts_expect_refused(struct visit *visit, const char *message);
const struct srv_tensor *texts_output(const struct visit *visit, const char *name);

/* The words of a file's contents that n ids name, with blanks between. */
void texts_spell(const char *contents, const uint8_t *ids, int64_t n, char *out, size_t room);
void texts_assert(const struct srv_tensor *got, uint32_t index, const char *wanted);

#endif
