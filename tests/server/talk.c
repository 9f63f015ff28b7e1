/* See talk.h. The site is the program's. */
#include "tests/server/talk.h"

#include "base/mem.h"
#include "tests/util.h"

#include <string.h>

struct site talk_site;
struct base_random talk_numbers;

void talk_open(struct site_options *options)
{
    options->keeps = true;
    options->gated = true;
    options->engine.run_steps_max = 1;
    site_open(&talk_site, options);
    talk_numbers = util_random(1);
}

void talk_setup(void)
{
    struct site_options options;
    site_options_init(&options);
    talk_open(&options);
}

void talk_teardown(void)
{
    site_close(&talk_site);
}

static void read_look(struct site *at, void *argument)
{
    const struct srv_sessions *sessions = &at->core->sessions;
    *(struct talk_look *)argument = (struct talk_look){.count = sessions->count,
                                                       .deadlines = at->core->deadlines.count,
                                                       .bytes = sessions->bytes,
                                                       .begun = sessions->begun,
                                                       .expired = sessions->expired};
}

struct talk_look talk_look(void)
{
    struct talk_look made;
    site_call(&talk_site, read_look, &made);
    return made;
}

static uint32_t steps_before(const struct talk *talk, uint32_t part)
{
    uint32_t steps = 0;
    for (uint32_t p = 0; p < part; p++) {
        steps += talk->steps[p];
    }
    return steps;
}

void talk_cut(const struct talk *talk, uint32_t part, size_t width, const uint8_t *all, uint8_t *to)
{
    const size_t step_bytes = width * sizeof(float);
    const uint32_t first = steps_before(talk, part);
    const uint32_t total = steps_before(talk, talk->n_parts);
    for (uint32_t b = 0; b < talk->n_rows; b++) {
        memcpy(to + b * talk->steps[part] * step_bytes, all + (b * total + first) * step_bytes,
               talk->steps[part] * step_bytes);
    }
}

void talk_mark(struct visit *visit, const char *id, bool is_start, bool is_end)
{
    visit->ask.request.sequence =
        (struct srv_sequence){.id = id, .is_start = is_start, .is_end = is_end};
}

void talk_part(struct talk *talk, uint32_t part)
{
    struct visit *visit = &talk->parts[part];
    memset(visit, 0, sizeof(*visit));
    ask_init(&visit->ask, talk_site.chain, talk->n_rows, talk->steps[part], &talk_numbers,
             ASK_PLAIN);
    struct srv_tensor *x = ask_input(&visit->ask, "x");
    uint8_t *data = base_arena_alloc(&visit->ask.request.arena, x->bytes);
    ck_assert_ptr_nonnull(data);
    talk_cut(talk, part, TALK_FEATURES, ask_input(&talk->whole.ask, "x")->data, data);
    x->data = data;
    talk_mark(visit, talk->id, part == 0, part + 1 == talk->n_parts);
}

void talk_init(struct talk *talk, const char *id, uint32_t n_rows, uint32_t n_parts,
               uint32_t steps_min)
{
    *talk = (struct talk){.id = id, .n_rows = n_rows, .n_parts = n_parts};
    for (uint32_t p = 0; p < n_parts; p++) {
        talk->steps[p] = steps_min + base_random_below(&talk_numbers, 4);
    }
    ask_init(&talk->whole.ask, talk_site.chain, n_rows, steps_before(talk, n_parts), &talk_numbers,
             ASK_PLAIN);
    static const char *const wanted[] = {"y", "h", "c"};
    talk->whole.ask.request.wanted = wanted;
    talk->whole.ask.request.n_wanted = 3;
    visit_start(&talk_site, &talk->whole);
    visit_wait(&talk->whole);
    for (uint32_t p = 0; p < n_parts; p++) {
        talk_part(talk, p);
    }
}

void talk_expect(struct talk *talk, uint32_t part)
{
    struct visit *visit = &talk->parts[part];
    visit_wait(visit);
    ck_assert_msg(visit->ask.request.error.status == BASE_OK, "part %u: %s", part,
                  visit->ask.request.error.message);
    ck_assert_uint_eq(visit->ask.request.n_outputs, 1);
    const struct srv_tensor *y = ask_output(&visit->ask, "y");
    uint8_t *right = base_alloc(y->bytes);
    ck_assert_ptr_nonnull(right);
    talk_cut(talk, part, TALK_HIDDEN, ask_output(&talk->whole.ask, "y")->data, right);
    ck_assert_mem_eq(y->data, right, y->bytes);
    base_free(right);
    ask_release(&visit->ask);
}

void talk_run(struct talk *talk, uint32_t part)
{
    visit_start(&talk_site, &talk->parts[part]);
    talk_expect(talk, part);
}

void talk_end(struct talk *talk)
{
    ask_release(&talk->whole.ask);
}

void talk_refused(struct talk *talk, uint32_t part, enum base_status status, const char *message)
{
    struct visit *visit = &talk->parts[part];
    visit_wait(visit);
    ck_assert_msg(strstr(visit->ask.request.error.message, message) != NULL, "%s",
                  visit->ask.request.error.message);
    ck_assert_int_eq(visit->ask.request.error.status, status);
    ask_release(&visit->ask);
}

void talk_spoil(struct talk *talk, uint32_t part)
{
    talk->parts[part].ask.request.inputs[0].datatype = "INT64";
}
