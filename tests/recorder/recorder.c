/* A tool that listens to NVTX and writes one JSON object a line: what the tests see of emitted ranges.
 *
 * NVTX loads it through NVTX_INJECTION64_PATH. It needs no NVTX header; where there is one, compile with
 * -DRECORDER_CHECK_HEADERS -I<folder of nvtx3> and every number and layout below is checked against it.
 *
 * Environment:
 *   RECORDER_OUT    folder for events-<process id>.jsonl; without it the tool refuses to start
 *   RECORDER_LINES  1: write every line at once, so that a crash or _exit loses nothing
 *
 * A line: time (ns, CLOCK_MONOTONIC), pid, thread (of the operating system), event, and as it applies
 * domain (null: the default one), message, id, depth, category, color, payload.
 */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

/* ---- the interface between NVTX and a tool ---- */

enum { TABLE_CALLBACKS = 1 };
enum { MODULE_CORE = 1, MODULE_CORE2 = 5 };
enum {
    CORE_MarkEx = 1, CORE_MarkA = 2, CORE_MarkW = 3, CORE_RangeStartEx = 4, CORE_RangeStartA = 5,
    CORE_RangeStartW = 6, CORE_RangeEnd = 7, CORE_RangePushEx = 8, CORE_RangePushA = 9,
    CORE_RangePushW = 10, CORE_RangePop = 11, CORE_NameCategoryA = 12, CORE_NameCategoryW = 13,
    CORE_NameOsThreadA = 14, CORE_NameOsThreadW = 15
};
enum {
    CORE2_DomainMarkEx = 1, CORE2_DomainRangeStartEx = 2, CORE2_DomainRangeEnd = 3,
    CORE2_DomainRangePushEx = 4, CORE2_DomainRangePop = 5, CORE2_DomainResourceCreate = 6,
    CORE2_DomainResourceDestroy = 7, CORE2_DomainNameCategoryA = 8, CORE2_DomainNameCategoryW = 9,
    CORE2_DomainRegisterStringA = 10, CORE2_DomainRegisterStringW = 11, CORE2_DomainCreateA = 12,
    CORE2_DomainCreateW = 13, CORE2_DomainDestroy = 14
};
enum { MESSAGE_ASCII = 1, MESSAGE_WIDE = 2, MESSAGE_REGISTERED = 3 };
enum { PAYLOAD_U64 = 1, PAYLOAD_I64 = 2, PAYLOAD_F64 = 3, PAYLOAD_U32 = 4, PAYLOAD_I32 = 5, PAYLOAD_F32 = 6 };
enum { COLOR_ARGB = 1, NO_DEPTH = -2 };

typedef union {
    const char *ascii;
    const wchar_t *wide;
    const char *registered; /* whatever we returned: our own copy of the string, in UTF-8 */
} message_value;

typedef struct {
    uint16_t version;
    uint16_t size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type;
    int32_t reserved;
    union { uint64_t u64; int64_t i64; double f64; uint32_t u32; int32_t i32; float f32; } payload;
    int32_t message_type;
    message_value message;
} attributes;

typedef struct {
    uint16_t version;
    uint16_t size;
    int32_t identifier_type;
    union { const void *pointer; uint64_t u64; } identifier;
    int32_t message_type;
    message_value message;
} resource;

typedef void (*function)(void);
typedef function **function_table;
typedef struct {
    size_t size;
    int (*module_functions)(int module, function_table *table, unsigned int *size);
} callbacks;
typedef const void *(*get_export_table)(uint32_t id);

#define LAYOUT(what) _Static_assert(what, "unknown layout: " #what)
LAYOUT(sizeof(void *) == 8);
LAYOUT(sizeof(attributes) == 48);
LAYOUT(offsetof(attributes, category) == 4);
LAYOUT(offsetof(attributes, color_type) == 8);
LAYOUT(offsetof(attributes, color) == 12);
LAYOUT(offsetof(attributes, payload_type) == 16);
LAYOUT(offsetof(attributes, payload) == 24);
LAYOUT(offsetof(attributes, message_type) == 32);
LAYOUT(offsetof(attributes, message) == 40);
LAYOUT(sizeof(resource) == 32);
LAYOUT(offsetof(resource, identifier) == 8);
LAYOUT(offsetof(resource, message_type) == 16);
LAYOUT(offsetof(resource, message) == 24);
LAYOUT(sizeof(callbacks) == 16);
LAYOUT(offsetof(callbacks, module_functions) == 8);

#ifdef RECORDER_CHECK_HEADERS
#include <nvtx3/nvToolsExt.h>
#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours " differs from " #theirs)
#define SAME_CORE(name) SAME(CORE_##name, NVTX_CBID_CORE_##name)
#define SAME_CORE2(name) SAME(CORE2_##name, NVTX_CBID_CORE2_##name)
#define SAME_FIELD(ours, theirs) SAME(offsetof(attributes, ours), offsetof(nvtxEventAttributes_t, theirs))
#define SAME_RESOURCE(ours, theirs) \
    SAME(offsetof(resource, ours), offsetof(nvtxResourceAttributes_t, theirs))
SAME(TABLE_CALLBACKS, NVTX_ETID_CALLBACKS);
SAME(MODULE_CORE, NVTX_CB_MODULE_CORE);
SAME(MODULE_CORE2, NVTX_CB_MODULE_CORE2);
SAME_CORE(MarkEx); SAME_CORE(MarkA); SAME_CORE(MarkW);
SAME_CORE(RangeStartEx); SAME_CORE(RangeStartA); SAME_CORE(RangeStartW); SAME_CORE(RangeEnd);
SAME_CORE(RangePushEx); SAME_CORE(RangePushA); SAME_CORE(RangePushW); SAME_CORE(RangePop);
SAME_CORE(NameCategoryA); SAME_CORE(NameCategoryW); SAME_CORE(NameOsThreadA); SAME_CORE(NameOsThreadW);
SAME_CORE2(DomainMarkEx); SAME_CORE2(DomainRangeStartEx); SAME_CORE2(DomainRangeEnd);
SAME_CORE2(DomainRangePushEx); SAME_CORE2(DomainRangePop); SAME_CORE2(DomainResourceCreate);
SAME_CORE2(DomainResourceDestroy); SAME_CORE2(DomainNameCategoryA); SAME_CORE2(DomainNameCategoryW);
SAME_CORE2(DomainRegisterStringA); SAME_CORE2(DomainRegisterStringW); SAME_CORE2(DomainCreateA);
SAME_CORE2(DomainCreateW); SAME_CORE2(DomainDestroy);
SAME(MESSAGE_ASCII, NVTX_MESSAGE_TYPE_ASCII);
SAME(MESSAGE_WIDE, NVTX_MESSAGE_TYPE_UNICODE);
SAME(MESSAGE_REGISTERED, NVTX_MESSAGE_TYPE_REGISTERED);
SAME(PAYLOAD_U64, NVTX_PAYLOAD_TYPE_UNSIGNED_INT64);
SAME(PAYLOAD_I64, NVTX_PAYLOAD_TYPE_INT64);
SAME(PAYLOAD_F64, NVTX_PAYLOAD_TYPE_DOUBLE);
SAME(PAYLOAD_U32, NVTX_PAYLOAD_TYPE_UNSIGNED_INT32);
SAME(PAYLOAD_I32, NVTX_PAYLOAD_TYPE_INT32);
SAME(PAYLOAD_F32, NVTX_PAYLOAD_TYPE_FLOAT);
SAME(COLOR_ARGB, NVTX_COLOR_ARGB);
SAME(NO_DEPTH, NVTX_NO_PUSH_POP_TRACKING);
SAME(sizeof(attributes), sizeof(nvtxEventAttributes_t));
SAME_FIELD(version, version); SAME_FIELD(size, size); SAME_FIELD(category, category);
SAME_FIELD(color_type, colorType); SAME_FIELD(color, color); SAME_FIELD(payload_type, payloadType);
SAME_FIELD(payload, payload); SAME_FIELD(message_type, messageType); SAME_FIELD(message, message);
SAME(sizeof(resource), sizeof(nvtxResourceAttributes_t));
SAME_RESOURCE(identifier_type, identifierType); SAME_RESOURCE(identifier, identifier);
SAME_RESOURCE(message_type, messageType); SAME_RESOURCE(message, message);
SAME(sizeof(callbacks), sizeof(NvtxExportTableCallbacks));
SAME(offsetof(callbacks, module_functions), offsetof(NvtxExportTableCallbacks, GetModuleFunctionTable));
#endif

/* ---- the file ---- */

enum { MOST_DOMAINS = 64 };

typedef struct {
    int index; /* 0 is the default domain */
    char *name;
} domain;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static FILE *file;
static char *folder;
static int by_line;
static int domains = 1;
static uint64_t next_range = 1;
static __thread int depths[MOST_DOMAINS];

static void open_file(void)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/events-%ld.jsonl", folder, (long)getpid());
    file = fopen(path, "a");
    if (!file) {
        fprintf(stderr, "recorder: cannot write %s\n", path);
        return;
    }
    setvbuf(file, NULL, by_line ? _IOLBF : _IOFBF, 1 << 16);
}

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
    if (file)
        fflush(file); /* or the child would write the parent's lines again */
}

static void after_fork_in_parent(void) { pthread_mutex_unlock(&lock); }

static void after_fork_in_child(void)
{
    if (file)
        fclose(file);
    file = NULL;
    by_line = 1; /* a forked worker mostly ends by _exit, which flushes nothing */
    memset(depths, 0, sizeof depths);
    pthread_mutex_unlock(&lock);
}

static void at_exit(void)
{
    pthread_mutex_lock(&lock);
    if (file)
        fflush(file); /* stays open: other threads may still emit */
    pthread_mutex_unlock(&lock);
}

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static unsigned long thread_id(void)
{
#ifdef __linux__
    return (unsigned long)syscall(SYS_gettid);
#else
    uint64_t id = 0;
    pthread_threadid_np(NULL, &id);
    return (unsigned long)id;
#endif
}

/* Valid UTF-8 passes through; quotes, backslashes and control characters are escaped. */
static void put_text(const char *text)
{
    if (!text) {
        fputs("null", file);
        return;
    }
    fputc('"', file);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(file, "\\%c", *c);
        else if (*c < 0x20 || *c == 0x7f)
            fprintf(file, "\\u%04x", *c);
        else
            fputc(*c, file);
    }
    fputc('"', file);
}

static char *copy(const char *text)
{
    size_t size = strlen(text) + 1;
    char *mine = malloc(size);
    return mine ? memcpy(mine, text, size) : NULL;
}

/* wchar_t is UTF-32 here; the result is the caller's. */
static char *narrow(const wchar_t *text)
{
    char *mine = malloc(4 * wcslen(text) + 1), *end = mine;
    if (!mine)
        return NULL;
    for (; *text; text++) {
        uint32_t c = (uint32_t)*text;
        int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
        static const unsigned char first[] = {0x00, 0xc0, 0xe0, 0xf0};
        *end++ = (char)(first[more] | (c >> (6 * more)));
        while (more--)
            *end++ = (char)(0x80 | ((c >> (6 * more)) & 0x3f));
    }
    *end = 0;
    return mine;
}

/* A line is begun under the lock, so that times ascend within the file; end_line lets go of it. */
static int begin_line(const char *event, const domain *where)
{
    pthread_mutex_lock(&lock);
    if (!file)
        open_file();
    if (!file) {
        pthread_mutex_unlock(&lock);
        return 0;
    }
    fprintf(file, "{\"time\":%llu,\"pid\":%ld,\"thread\":%lu,\"event\":\"%s\",\"domain\":",
            (unsigned long long)now(), (long)getpid(), thread_id(), event);
    put_text(where ? where->name : NULL);
    return 1;
}

static void end_line(void)
{
    fputs("}\n", file);
    pthread_mutex_unlock(&lock);
}

static void put_message(int type, const message_value *message)
{
    char *mine = type == MESSAGE_WIDE && message->wide ? narrow(message->wide) : NULL;
    fputs(",\"message\":", file);
    if (type == MESSAGE_WIDE)
        put_text(mine);
    else
        put_text(type == MESSAGE_ASCII || type == MESSAGE_REGISTERED ? message->ascii : NULL);
    free(mine);
}

static void put_real(double value, int digits)
{
    if (isnan(value))
        fputs("NaN", file);
    else if (isinf(value))
        fputs(value > 0 ? "Infinity" : "-Infinity", file);
    else
        fprintf(file, "%.*g", digits, value);
}

static void put_payload(const attributes *a)
{
    if (!a->payload_type)
        return;
    fputs(",\"payload\":", file);
    switch (a->payload_type) {
    case PAYLOAD_U64: fprintf(file, "%llu", (unsigned long long)a->payload.u64); break;
    case PAYLOAD_I64: fprintf(file, "%lld", (long long)a->payload.i64); break;
    case PAYLOAD_F64: put_real(a->payload.f64, 17); break;
    case PAYLOAD_U32: fprintf(file, "%u", a->payload.u32); break;
    case PAYLOAD_I32: fprintf(file, "%d", a->payload.i32); break;
    case PAYLOAD_F32: put_real(a->payload.f32, 9); break;
    default: fputs("null", file); /* an extended payload, told by its type */
    }
    fprintf(file, ",\"payload_type\":%d", a->payload_type);
}

static void put_attributes(const attributes *a)
{
    if (!a) {
        fputs(",\"message\":null", file);
        return;
    }
    put_message(a->message_type, &a->message);
    if (a->category)
        fprintf(file, ",\"category\":%u", a->category);
    if (a->color_type == COLOR_ARGB)
        fprintf(file, ",\"color\":%u", a->color);
    put_payload(a);
}

/* ---- events ---- */

static attributes plain(const char *text)
{
    attributes a = {.message_type = MESSAGE_ASCII, .message.ascii = text};
    return a;
}

static attributes wide(const wchar_t *text)
{
    attributes a = {.message_type = MESSAGE_WIDE, .message.wide = text};
    return a;
}

static int *depth_in(const domain *where)
{
    int index = where ? where->index : 0;
    return index < MOST_DOMAINS ? &depths[index] : NULL;
}

static void mark(const domain *where, const attributes *a)
{
    if (!begin_line("mark", where))
        return;
    put_attributes(a);
    end_line();
}

static int push(const domain *where, const attributes *a)
{
    int *depth = depth_in(where), level = depth ? (*depth)++ : NO_DEPTH;
    if (!begin_line("push", where))
        return level;
    put_attributes(a);
    fprintf(file, ",\"depth\":%d", level);
    end_line();
    return level;
}

static int pop(const domain *where)
{
    int *depth = depth_in(where), level = !depth ? NO_DEPTH : *depth > 0 ? --*depth : -1;
    if (!begin_line("pop", where))
        return level;
    fprintf(file, ",\"depth\":%d", level);
    end_line();
    return level;
}

static uint64_t start(const domain *where, const attributes *a)
{
    uint64_t id = __sync_fetch_and_add(&next_range, 1);
    if (!begin_line("start", where))
        return id;
    put_attributes(a);
    fprintf(file, ",\"id\":%llu", (unsigned long long)id);
    end_line();
    return id;
}

static void end(const domain *where, uint64_t id)
{
    if (!begin_line("end", where))
        return;
    fprintf(file, ",\"id\":%llu", (unsigned long long)id);
    end_line();
}

static void name(const char *event, const domain *where, uint32_t id, const attributes *a)
{
    if (!begin_line(event, where))
        return;
    put_attributes(a);
    fprintf(file, ",\"id\":%u", id);
    end_line();
}

static domain *make_domain(char *text)
{
    domain *made = malloc(sizeof *made);
    if (!made)
        return NULL;
    made->index = __sync_fetch_and_add(&domains, 1);
    made->name = text;
    if (begin_line("domain", made))
        end_line();
    return made;
}

/* ---- what NVTX calls ---- */

static void on_mark(const attributes *a) { mark(NULL, a); }
static void on_mark_a(const char *text) { attributes a = plain(text); mark(NULL, &a); }
static void on_mark_w(const wchar_t *text) { attributes a = wide(text); mark(NULL, &a); }
static uint64_t on_start(const attributes *a) { return start(NULL, a); }
static uint64_t on_start_a(const char *text) { attributes a = plain(text); return start(NULL, &a); }
static uint64_t on_start_w(const wchar_t *text) { attributes a = wide(text); return start(NULL, &a); }
static void on_end(uint64_t id) { end(NULL, id); }
static int on_push(const attributes *a) { return push(NULL, a); }
static int on_push_a(const char *text) { attributes a = plain(text); return push(NULL, &a); }
static int on_push_w(const wchar_t *text) { attributes a = wide(text); return push(NULL, &a); }
static int on_pop(void) { return pop(NULL); }
static void on_category_a(uint32_t id, const char *text)
{
    attributes a = plain(text);
    name("category", NULL, id, &a);
}
static void on_category_w(uint32_t id, const wchar_t *text)
{
    attributes a = wide(text);
    name("category", NULL, id, &a);
}
static void on_thread_a(uint32_t id, const char *text)
{
    attributes a = plain(text);
    name("thread", NULL, id, &a);
}
static void on_thread_w(uint32_t id, const wchar_t *text)
{
    attributes a = wide(text);
    name("thread", NULL, id, &a);
}
static void on_domain_category_a(domain *where, uint32_t id, const char *text)
{
    attributes a = plain(text);
    name("category", where, id, &a);
}
static void on_domain_category_w(domain *where, uint32_t id, const wchar_t *text)
{
    attributes a = wide(text);
    name("category", where, id, &a);
}
static void *on_resource(domain *where, const resource *r)
{
    if (begin_line("resource", where)) {
        put_message(r->message_type, &r->message);
        end_line();
    }
    return where ? (void *)where : (void *)folder; /* any handle that is not null */
}
static void on_resource_gone(void *handle) { (void)handle; }
static char *on_string_a(domain *where, const char *text) { (void)where; return copy(text); }
static char *on_string_w(domain *where, const wchar_t *text) { (void)where; return narrow(text); }
static domain *on_domain_a(const char *text) { return make_domain(copy(text)); }
static domain *on_domain_w(const wchar_t *text) { return make_domain(narrow(text)); }
static void on_domain_gone(domain *where)
{
    if (begin_line("destroy", where)) /* never freed: late events may name it */
        end_line();
}

/* ---- attaching ---- */

typedef struct {
    unsigned int id;
    function handler;
} entry;

static const entry core[] = {
    {CORE_MarkEx, (function)on_mark}, {CORE_MarkA, (function)on_mark_a},
    {CORE_MarkW, (function)on_mark_w}, {CORE_RangeStartEx, (function)on_start},
    {CORE_RangeStartA, (function)on_start_a}, {CORE_RangeStartW, (function)on_start_w},
    {CORE_RangeEnd, (function)on_end}, {CORE_RangePushEx, (function)on_push},
    {CORE_RangePushA, (function)on_push_a}, {CORE_RangePushW, (function)on_push_w},
    {CORE_RangePop, (function)on_pop}, {CORE_NameCategoryA, (function)on_category_a},
    {CORE_NameCategoryW, (function)on_category_w}, {CORE_NameOsThreadA, (function)on_thread_a},
    {CORE_NameOsThreadW, (function)on_thread_w},
};
static const entry core2[] = {
    {CORE2_DomainMarkEx, (function)mark}, {CORE2_DomainRangeStartEx, (function)start},
    {CORE2_DomainRangeEnd, (function)end}, {CORE2_DomainRangePushEx, (function)push},
    {CORE2_DomainRangePop, (function)pop}, {CORE2_DomainResourceCreate, (function)on_resource},
    {CORE2_DomainResourceDestroy, (function)on_resource_gone},
    {CORE2_DomainNameCategoryA, (function)on_domain_category_a},
    {CORE2_DomainNameCategoryW, (function)on_domain_category_w},
    {CORE2_DomainRegisterStringA, (function)on_string_a},
    {CORE2_DomainRegisterStringW, (function)on_string_w},
    {CORE2_DomainCreateA, (function)on_domain_a}, {CORE2_DomainCreateW, (function)on_domain_w},
    {CORE2_DomainDestroy, (function)on_domain_gone},
};
#define COUNT(array) (sizeof(array) / sizeof(array)[0])
LAYOUT(COUNT(core) == 15);
LAYOUT(COUNT(core2) == 14);

static int attach(const callbacks *from, int module, const entry *entries, size_t count)
{
    function_table table = NULL;
    unsigned int size = 0;
    if (!from->module_functions(module, &table, &size) || !table)
        return 0;
    for (size_t i = 0; i < count; i++)
        if (entries[i].id < size && table[entries[i].id])
            *table[entries[i].id] = entries[i].handler;
    return 1;
}

static void prepare(void)
{
    const char *lines = getenv("RECORDER_LINES");
    folder = copy(getenv("RECORDER_OUT"));
    by_line = lines && !strcmp(lines, "1");
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    atexit(at_exit);
}

/* Every copy of NVTX in the process calls this once. */
__attribute__((visibility("default"))) int InitializeInjectionNvtx2(get_export_table get)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const callbacks *from = (const callbacks *)get(TABLE_CALLBACKS);
    if (!getenv("RECORDER_OUT") || !from || from->size < sizeof *from)
        return 0;
    pthread_once(&once, prepare);
    return attach(from, MODULE_CORE, core, COUNT(core)) && attach(from, MODULE_CORE2, core2, COUNT(core2));
}
