/* Trees as text with brackets: each is the one that its numbers make, and texts that are none are
 * refused by name. */
#include "base/mem.h"
#include "tests/server/text_site.h"

#include <stdio.h>
#include <string.h>

/* Four trees, one of them a lone word, are roots in the order of their texts. */
START_TEST(test_bracketed_trees_are_those_of_their_numbers)
{
    static const int64_t leaves[] = {6, 0, 1, 2, 3, 4, 5, 7};
    static const int64_t children[] = {
        0,  1,  9,  // 8: (MAX the (cat sat))
        2,  3,  -1, // 9
        5,  -1, -1, // 10: (a)
        12, 7,  -1, // 11: ((mat) 1)
        6,  -1, -1, // 12
    };
    static const uint32_t root_rows[] = {1, 0, 2, 3}; // of numbers 8, 4, 10 and 11: 4 is the first
    struct visit texts;
    struct visit numbers;
    texts_begin(&texts, "tree");
    texts_add_texts(&texts, "word", "(MAX the(cat sat))\0 on \0( a )\0((mat)1)\0");
    texts_run(&texts);
    texts_begin(&numbers, "tree_ids");
    texts_add(&numbers, "word", "INT64", leaves, sizeof(leaves));
    texts_shape(&numbers, 1, 8, 0);
    texts_add(&numbers, "children", "INT64", children, sizeof(children));
    texts_shape(&numbers, 2, 5, TEXTS_CHILDREN);
    texts_run(&numbers);
    const struct srv_tensor *got = texts_output(&texts, "h");
    const struct srv_tensor *wanted = texts_output(&numbers, "h");
    const size_t row_bytes = TEXTS_HIDDEN * sizeof(float);
    ck_assert_uint_eq(got->bytes, 4 * row_bytes);
    ck_assert_uint_eq(wanted->bytes, 4 * row_bytes);
    for (uint32_t tree = 0; tree < 4; tree++) {
        ck_assert_mem_eq(got->data + tree * row_bytes, wanted->data + root_rows[tree] * row_bytes,
                         row_bytes);
    }
    ask_release(&texts.ask);
    ask_release(&numbers.ask);
}
END_TEST

START_TEST(test_trees_that_are_none_are_refused)
{
    static const struct {
        const char *texts, *message;
    } mistakes[] = {
        {"(the\0", "input 'word': text 0: 1 brackets are not closed"},
        {"(the (cat (sat)\0", "input 'word': text 0: 2 brackets are not closed"},
        {"the)\0", "input 'word': text 0, byte 3: a bracket closes that none has opened"},
        {")\0", "input 'word': text 0, byte 0: a bracket closes that none has opened"},
        {"the\0()\0", "input 'word': text 1, byte 1: nothing stands between these brackets"},
        {"(the ())\0", "input 'word': text 0, byte 6: nothing stands between these brackets"},
        {"the cat\0", "input 'word': text 0, byte 4: a second tree begins; each text is one"},
        {"(the) (cat)\0", "input 'word': text 0, byte 6: a second tree begins; each text is one"},
        {"the\0  \0", "input 'word': text 1, byte 0: no tree"},
        {"(a a a a)\0", "input 'word': text 0, byte 7: more than the 3 children that a node of "
                        "this model has"},
        {"(the dog)\0", "input 'word': \"dog\" in text 0 is not in the vocabulary"},
        {"(the antidisestablishmentarianism)\0",
         "input 'word': \"antidisestablishmentaria...\" in text 0 is not in the vocabulary"},
    };
    struct visit visit;
    for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
        texts_begin(&visit, "tree");
        texts_add_texts(&visit, "word", mistakes[i].texts);
        texts_expect_refused(&visit, mistakes[i].message);
    }
    texts_begin(&visit, "tree");
    texts_add_texts(&visit, "word", "the\0");
    texts_shape(&visit, 1, 2, 0);
    texts_expect_refused(&visit,
                         "input 'word': trees come as BYTES of shape [trees], here with 1 texts");
    texts_begin(&visit, "tree");
    texts_add_texts(&visit, "word", "the\0");
    texts_add_ids(&visit, "children", 3, (const int64_t[]){0, -1, -1});
    texts_expect_refused(&visit,
                         "input 'word': trees as text say all; send no other input beside them");
    texts_begin(&visit, "tree");
    texts_add(&visit, "word", "BYTES", "\4\0\0\0the", 7);
    texts_shape(&visit, 1, 1, 0);
    texts_expect_refused(&visit, "input 'word': the bytes of text 0 are cut off");
}
END_TEST

/* Nothing recurses: brackets as deep as a request may have them, open or closed. */
START_TEST(test_deep_brackets)
{
    enum { DEPTH = 100000, SERVED = 9999 };
    struct visit visit;
    char *text = base_alloc(2 * DEPTH + 16);
    ck_assert_ptr_nonnull(text);
    for (int round = 0; round < 3; round++) {
        const uint32_t depth = round == 2 ? SERVED : DEPTH;
        uint32_t length = 4 + depth;
        memset(text + 4, '(', depth);
        if (round > 0) {
            text[4 + length - 4] = '1';
            memset(text + 4 + depth + 1, ')', depth);
            length = 4 + 2 * depth + 1;
        }
        const uint32_t prefix = length - 4;
        memcpy(text, &prefix, sizeof(prefix));
        texts_begin(&visit, "tree");
        texts_add(&visit, "word", "BYTES", text, length);
        texts_shape(&visit, 1, 1, 0);
        if (round == 0) {
            texts_expect_refused(&visit, "input 'word': text 0: 100000 brackets are not closed");
        } else if (round == 1) {
            texts_expect_refused(&visit,
                                 "1 leaves and 100000 inner nodes, expected 20000 together at "
                                 "most");
        } else {
            texts_run(&visit);
            ask_release(&visit.ask);
        }
    }
    base_free(text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("text_tree");
    TCase *tcase = tcase_create("text_tree");
    tcase_add_checked_fixture(tcase, texts_setup, texts_teardown);
    tcase_add_test(tcase, test_bracketed_trees_are_those_of_their_numbers);
    tcase_add_test(tcase, test_trees_that_are_none_are_refused);
    tcase_add_test(tcase, test_deep_brackets);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
