/* Paths and methods to pages. */
#include "server/http/route.h"

#include "tests/util.h"

#include <string.h>

static struct srv_http_route route;
static const char *allow;
static struct base_error error;

static int read_route(const char *method, const char *path)
{
    return srv_http_route_read(method, path, false, &route, &allow, &error);
}

static const struct {
    const char *method, *path;
    enum srv_http_page page;
    const char *model, *version;
} good[] = {
    {"GET", "/v2", SRV_HTTP_SERVER, "", ""},
    {"HEAD", "/v2/", SRV_HTTP_SERVER, "", ""},
    {"GET", "/v2/health/live", SRV_HTTP_LIVE, "", ""},
    {"GET", "/v2/health/ready/", SRV_HTTP_READY, "", ""},
    {"GET", "/v2/models/stats", SRV_HTTP_STATS, "", ""},
    {"GET", "/v2/models/m", SRV_HTTP_MODEL, "m", ""},
    {"GET", "/v2/models/m/ready", SRV_HTTP_MODEL_READY, "m", ""},
    {"GET", "/v2/models/m/config", SRV_HTTP_CONFIG, "m", ""},
    {"GET", "/v2/models/m/stats", SRV_HTTP_STATS, "m", ""},
    {"POST", "/v2/models/m/infer", SRV_HTTP_INFER, "m", ""},
    {"GET", "/v2/models/m/versions/12", SRV_HTTP_MODEL, "m", "12"},
    {"GET", "/v2/models/m/versions/1/ready", SRV_HTTP_MODEL_READY, "m", "1"},
    {"GET", "/v2/models/m/versions/1/config", SRV_HTTP_CONFIG, "m", "1"},
    {"GET", "/v2/models/m/versions/1/stats", SRV_HTTP_STATS, "m", "1"},
    {"POST", "/v2/models/m/versions/1/infer", SRV_HTTP_INFER, "m", "1"},
    {"POST", "/v2/repository/index", SRV_HTTP_INDEX, "", ""},
    {"POST", "/v2/repository/models/m/load", SRV_HTTP_LOAD, "m", ""},
    {"POST", "/v2/repository/models/a%2eb/unload/", SRV_HTTP_UNLOAD, "a.b", ""},
    {"GET", "/v2/models/A-b_c.9", SRV_HTTP_MODEL, "A-b_c.9", ""},
    {"GET", "/v2/models/l%61ngid%2D1", SRV_HTTP_MODEL, "langid-1", ""},
};

START_TEST(test_route_reads)
{
    ck_assert_int_eq(read_route(good[_i].method, good[_i].path), 200);
    ck_assert_int_eq((int)route.page, (int)good[_i].page);
    ck_assert_str_eq(route.model, good[_i].model);
    ck_assert_str_eq(route.version, good[_i].version);
}
END_TEST

static const struct {
    const char *method, *path;
    int code;
} bad[] = {
    {"GET", "", 404},
    {"GET", "/", 404},
    {"GET", "*", 404},
    {"GET", "v2", 404},
    {"GET", "//v2", 404},
    {"GET", "/v2//models/m", 404},
    {"GET", "/v2x", 404},
    {"GET", "/V2", 404},
    {"GET", "/v2/models", 404},
    {"GET", "/v2/health", 404},
    {"GET", "/v2/models/m/versions", 404},
    {"GET", "/v2/models/m/versions/1/x", 404},
    {"GET", "/v2/models/m/versions/1/ready/x", 404},
    {"GET", "/a/b/c/d/e/f/g/h/i/j", 404},
    {"GET", "/metrics", 404},
    {"GET", "/v%32", 404},
    {"GET", "/v2/models//ready", 400},
    {"GET", "/v2/models/.hidden", 400},
    {"GET", "/v2/models/..", 400},
    {"GET", "/v2/models/%2e%2e", 400},
    {"GET", "/v2/models/a%2fb", 400},
    {"GET", "/v2/models/a%00b", 400},
    {"GET", "/v2/models/a%", 400},
    {"GET", "/v2/models/a%4", 400},
    {"GET", "/v2/models/a%zz", 400},
    {"GET", "/v2/models/a b", 400},
    {"GET", "/v2/models/%C3%A4", 400},
    {"GET", "/v2/models/m/versions/one", 400},
    {"GET", "/v2/models/m/versions/-1", 400},
    {"GET", "/v2/models/m/versions/123456789012345678901234", 400},
    {"POST", "/v2", 405},
    {"DELETE", "/v2/models/m", 405},
    {"GET", "/v2/models/m/infer", 405},
    {"PUT", "/v2/models/m/infer", 405},
    {"HEAD", "/v2/repository/index", 405},
    {"get", "/v2", 405},
    {"GET", "/v2/models/m/generate", 405},
    {"PUT", "/v2/models/m/versions/2/generate_stream", 405},
    {"POST", "/v2/repository/models/m/trace", 404},
    {"POST", "/v2/repository/models//load", 400},
    {"POST", "/v2/repository/models/..%2fm/load", 400},
    {"POST", "/v2/repository/models/.m/unload", 400},
    {"GET", "/v2/repository/models/m/load", 405},
    {"HEAD", "/v2/repository/models/m/unload", 405},
    {"PUT", "/v2/repository/models/m/load", 405},
    {"GET", "/v2/systemsharedmemory/status", 501},
    {"POST", "/v2/cudasharedmemory/region/r/register", 501},
    {"GET", "/v2/logging", 501},
};

START_TEST(test_route_refuses)
{
    int code = read_route(bad[_i].method, bad[_i].path);
    ck_assert_msg(code == bad[_i].code, "%s %s: %d", bad[_i].method, bad[_i].path, code);
    ck_assert(error.status != BASE_OK && error.message[0] != '\0');
    ck_assert((allow != NULL) == (code == 405));
}
END_TEST

START_TEST(test_route_longest_name)
{
    char path[256] = "/v2/models/";
    size_t start = strlen(path);
    memset(path + start, 'a', CELL_NAME_BYTES - 1);
    ck_assert_int_eq(read_route("GET", path), 200);
    ck_assert_uint_eq(strlen(route.model), CELL_NAME_BYTES - 1);
    path[start + CELL_NAME_BYTES - 1] = 'a';
    ck_assert_int_eq(read_route("GET", path), 400);
}
END_TEST

START_TEST(test_route_metrics_port)
{
    ck_assert_int_eq(srv_http_route_read("GET", "/metrics", true, &route, &allow, &error), 200);
    ck_assert_int_eq((int)route.page, (int)SRV_HTTP_METRICS);
    ck_assert_int_eq(srv_http_route_read("POST", "/metrics", true, &route, &allow, &error), 405);
    ck_assert_int_eq(srv_http_route_read("GET", "/v2", true, &route, &allow, &error), 404);
    ck_assert_int_eq(srv_http_route_read("GET", "/", true, &route, &allow, &error), 404);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("http_route");
    TCase *tc = tcase_create("http_route");
    tcase_add_loop_test(tc, test_route_reads, 0, (int)(sizeof good / sizeof good[0]));
    tcase_add_loop_test(tc, test_route_refuses, 0, (int)(sizeof bad / sizeof bad[0]));
    tcase_add_test(tc, test_route_longest_name);
    tcase_add_test(tc, test_route_metrics_port);
    suite_add_tcase(suite, tc);
    return util_run(suite);
}
