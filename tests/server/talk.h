/* A site whose models keep states (tests/server/site.h), and sequences of its model "chain" that
 * come to it in parts, beside the whole of each. */
#ifndef TESTS_SERVER_TALK_H
#define TESTS_SERVER_TALK_H

#include "server/core_state.h"
#include "tests/server/site.h"

#define TALK_FEATURES  3u /* of an input's step */
#define TALK_HIDDEN    8u /* of an output's */
#define TALK_PARTS_MAX 16u

extern struct site talk_site;
extern struct base_random talk_numbers;

/* Batches of one step. */
void talk_open(struct site_options *options);
/* Fixtures: with the site's own options. */
void talk_setup(void);
void talk_teardown(void);

/* The site's sessions at the moment. */
struct talk_look {
    uint32_t count, deadlines;
    size_t bytes;
    uint64_t begun, expired;
};
struct talk_look talk_look(void);

struct talk {
    const char *id;
    uint32_t n_rows, n_parts, steps[TALK_PARTS_MAX];
    struct visit whole, parts[TALK_PARTS_MAX];
};

/* A random sequence in parts of steps_min to steps_min + 3 steps each. The whole of it is answered
 * when this returns; the parts are ready to be started. */
void talk_init(struct talk *talk, const char *id, uint32_t n_rows, uint32_t n_parts,
               uint32_t steps_min);
void talk_end(struct talk *talk); /* its parts are answered and looked at */

/* Makes a part anew: it is to be sent again. */
void talk_part(struct talk *talk, uint32_t part);
/* Makes it one that is refused: input 'x' has another datatype. */
void talk_spoil(struct talk *talk, uint32_t part);
void talk_mark(struct visit *visit, const char *id, bool is_start, bool is_end);

/* Fills `to` with the steps of a part, of all that a tensor of so many features has. */
void talk_cut(const struct talk *talk, uint32_t part, size_t width, const uint8_t *all,
              uint8_t *to);

/* The part is answered with what the whole has there, and with nothing else. */
void talk_expect(struct talk *talk, uint32_t part);
/* Starts it before that. */
void talk_run(struct talk *talk, uint32_t part);
/* It is answered so; the message contains this. */
void talk_refused(struct talk *talk, uint32_t part, enum base_status status, const char *message);

#endif
