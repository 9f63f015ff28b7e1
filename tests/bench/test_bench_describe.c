/* `cellbatch-bench describe`: the graphs of the demo models, as text, in graphviz's language, and
 * as pictures. */
#include "base/mem.h"
#include "bench/bench.h"
#include "tests/bench/command.h"
#include "tests/util.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What the command writes about a model of models/. */
static char *output_of(const char *options, const char *model, int wanted)
{
    char all[4 * UTIL_PATH_BYTES];
    char path[UTIL_PATH_BYTES];
    char relative[64];
    int result = 0;
    snprintf(relative, sizeof(relative), "models/%s", model);
    util_repo_path(path, relative);
    snprintf(all, sizeof(all), "describe %s %s", options, path);
    char *text = command_run(bench_describe, all, &result);
    ck_assert_int_eq(result, wanted);
    return text;
}

static void assert_tells(const char *options, const char *model, const char *const words[])
{
    char *text = output_of(options, model, 0);
    for (uint32_t i = 0; words[i] != NULL; i++) {
        ck_assert_msg(strstr(text, words[i]) != NULL, "no \"%s\" in %s", words[i], text);
    }
    base_free(text);
}

START_TEST(test_graphs_are_told)
{
    assert_tells("--steps=7 --rows=2", "langid/1/model.onnx",
                 (const char *const[]){"2 sequences of 7 steps become 4 nodes, 2 arrows",
                                       "node 0 model/lstm: 7 steps; for node 1", NULL});
    assert_tells("", "dates/1",
                 (const char *const[]){"1 sequence of 4 steps become 5 nodes",
                                       "model/encoder/each: 4 cells, each on its own",
                                       "model/decoder: up to 16 steps", NULL});
    // Six leaves are a node's children; 7 leave one that goes up alone.
    assert_tells("", "listops/1",
                 (const char *const[]){"a tree of 6 leaves becomes 8 nodes, 7 arrows",
                                       "node 5 model/leaf: 1 cell; for node 6\n",
                                       "node 7 model/root: 1 cell\n", NULL});
    assert_tells("--leaves=7", "listops/1",
                 (const char *const[]){"a tree of 7 leaves becomes 10 nodes", NULL});
    assert_tells("--leaves=1", "listops/1",
                 (const char *const[]){"a tree of 1 leaves becomes 2 nodes, 1 arrows", NULL});
}
END_TEST

/* models/listops, asked as a graph: a leaf of the second round reads the id of the first one's
 * root. */
START_TEST(test_a_graph_of_named_cells_is_told)
{
    static const char *const parts[] = {"leaf", "node", "root"};
    char folder[UTIL_PATH_BYTES];
    char path[2 * UTIL_PATH_BYTES];
    char command[4 * UTIL_PATH_BYTES];
    int result = 0;
    util_temp_dir(folder);
    snprintf(path, sizeof(path), "%s/config.yaml", folder);
    util_write_file(path, "unfold: graph\ncells: leaf,node,root\n");
    snprintf(path, sizeof(path), "%s/1", folder);
    ck_assert_int_eq(mkdir(path, 0755), 0);
    for (size_t p = 0; p < sizeof(parts) / sizeof(parts[0]); p++) {
        char relative[64];
        char from[UTIL_PATH_BYTES];
        snprintf(relative, sizeof(relative), "models/listops/1/%s.onnx", parts[p]);
        util_repo_path(from, relative);
        snprintf(path, sizeof(path), "%s/1/%s.onnx", folder, parts[p]);
        ck_assert_int_eq(symlink(from, path), 0);
    }
    snprintf(command, sizeof(command), "describe --steps=2 %s/1", folder);
    char *text = command_run(bench_describe, command, &result);
    ck_assert_int_eq(result, 0);
    ck_assert_ptr_nonnull(
        strstr(text, "a graph of 2 nodes of each cell becomes 6 nodes, 5 arrows"));
    ck_assert_ptr_nonnull(strstr(text, "node 0 model/leaf: 1 cell; for node "));
    base_free(text);
    util_remove_tree(folder);
}
END_TEST

START_TEST(test_graphs_are_drawn)
{
    char folder[UTIL_PATH_BYTES];
    char path[2 * UTIL_PATH_BYTES];
    char options[3 * UTIL_PATH_BYTES];
    assert_tells("--dot --steps=9", "langid/1/model.onnx",
                 (const char *const[]){"digraph cells {",
                                       "label=\"{model/lstm|{1|2|3|4|5|6|..|9}}\"", "n0 -> n1;",
                                       NULL});
    util_temp_dir(folder);
    snprintf(options, sizeof(options), "--svg=%s/d.svg --png=%s/d.png", folder, folder);
    base_free(output_of(options, "dates/1", 0));
    snprintf(path, sizeof(path), "%s/d.svg", folder);
    char *svg = util_read_file(path, NULL);
    ck_assert_ptr_nonnull(svg);
    ck_assert_ptr_nonnull(strstr(svg, "model/decoder"));
    base_free(svg);
    snprintf(path, sizeof(path), "%s/d.png", folder);
    char *png = util_read_file(path, NULL);
    ck_assert_ptr_nonnull(png);
    ck_assert_mem_eq(png, "\x89PNG", 4);
    base_free(png);
    util_remove_tree(folder);
}
END_TEST

START_TEST(test_what_cannot_be_described_is_refused)
{
    static const char *const wrong[] = {"--steps=0",  "--steps=1001", "--rows=65", "--leaves=0",
                                        "--leaves=x", "--leaves=257", "--nothing", "another"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        base_free(output_of(wrong[i], "langid/1/model.onnx", 2));
    }
    base_free(output_of("", "langid/1/none.onnx", 2));
    base_free(output_of("--svg=/nonexistent/folder/d.svg", "langid/1/model.onnx", 2));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bench_describe");
    TCase *tcase = tcase_create("describe");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, test_graphs_are_told);
    tcase_add_test(tcase, test_a_graph_of_named_cells_is_told);
    tcase_add_test(tcase, test_graphs_are_drawn);
    tcase_add_test(tcase, test_what_cannot_be_described_is_refused);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
