#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"

#define LINE_MAX_BYTES 8192
#define GATHER_BYTES 65536 /* gathered lines go out at the latest when fewer than a line fits */

/* The sink; set once at start by log_open(), as house rules allow for the log alone. Lines are made
 * in `lines`, under the lock: any thread may log. */
static struct {
    pthread_mutex_t lock;
    int fd;
    enum log_format format;
    enum log_level least;
    uint64_t dropped;
    bool gather;
    size_t len;
    time_t second;
    char stamp[24]; /* of that second */
    char lines[GATHER_BYTES];
} sink = { .lock = PTHREAD_MUTEX_INITIALIZER, .fd = 2, .format = LOG_TEXT, .least = LOG_INFO };

/* A line in the making. */
struct line {
    char *p, *end;
    bool cut; /* it did not fit */
};

static const char *const level_names[] = {
    [LOG_DEBUG] = "debug",
    [LOG_INFO] = "info",
    [LOG_WARN] = "warning",
    [LOG_ERROR] = "error",
};

/* ---- out ---- */

static uint64_t count_lines(const char *from, const char *to)
{
    uint64_t n = 0;
    for (; from < to && (from = memchr(from, '\n', (size_t)(to - from))); from++)
        n++;
    return n;
}

static void flush_locked(void)
{
    const char *p = sink.lines, *end = sink.lines + sink.len;
    while (p < end) {
        ssize_t n = write(sink.fd, p, (size_t)(end - p));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        p += n;
    }
    sink.dropped += count_lines(p, end);
    sink.len = 0;
}

void log_open(int fd, enum log_format format, enum log_level least)
{
    pthread_mutex_lock(&sink.lock);
    flush_locked();
    sink.fd = fd;
    sink.format = format;
    sink.least = least;
    sink.dropped = 0;
    sink.gather = false;
    pthread_mutex_unlock(&sink.lock);
}

void log_gather(bool on)
{
    pthread_mutex_lock(&sink.lock);
    sink.gather = on;
    flush_locked();
    pthread_mutex_unlock(&sink.lock);
}

void log_flush(void)
{
    pthread_mutex_lock(&sink.lock);
    flush_locked();
    pthread_mutex_unlock(&sink.lock);
}

uint64_t log_dropped(void)
{
    pthread_mutex_lock(&sink.lock);
    uint64_t dropped = sink.dropped;
    pthread_mutex_unlock(&sink.lock);
    return dropped;
}

/* ---- a line ---- */

static void put(struct line *line, const char *s, size_t len)
{
    if (len > (size_t)(line->end - line->p)) {
        line->cut = true;
        return;
    }
    memcpy(line->p, s, len);
    line->p += len;
}

static void put_str(struct line *line, const char *s)
{
    put(line, s, strlen(s));
}

static void put_int(struct line *line, int64_t value)
{
    char digits[24];
    char *p = digits + sizeof(digits);
    uint64_t left = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do {
        *--p = (char)('0' + left % 10);
        left /= 10;
    } while (left);
    if (value < 0)
        *--p = '-';
    put(line, p, (size_t)(digits + sizeof(digits) - p));
}

/* Bytes at the front of s that JSON takes as they are. */
static size_t plain_length(const char *s)
{
    const unsigned char *p = (const unsigned char *)s;
    while (*p >= 0x20 && *p < 0x7f && *p != '"' && *p != '\\')
        p++;
    return (size_t)(p - (const unsigned char *)s);
}

static void put_escape(struct line *line, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    if (c == '"' || c == '\\')
        put(line, (char[]){ '\\', (char)c }, 2);
    else
        put(line, (char[]){ '\\', 'u', '0', '0', hex[c >> 4], hex[c & 15] }, 6);
}

static void put_json_string(struct line *line, const char *s)
{
    size_t n = plain_length(s);
    put(line, "\"", 1);
    put(line, s, n);
    bool utf8 = !s[n] || text_utf8_valid(s + n, strlen(s + n));
    while (s[n]) {
        s += n;
        if (utf8 && (unsigned char)*s >= 0x80)
            put(line, s, 1);
        else
            put_escape(line, (unsigned char)*s);
        s++;
        n = plain_length(s);
        put(line, s, n);
    }
    put(line, "\"", 1);
}

static void put_text_string(struct line *line, const char *s)
{
    char shown[4096];
    text_safe(s, shown, sizeof(shown));
    bool plain = *shown && !strpbrk(shown, " =\"\\");
    put(line, "\"", plain ? 0 : 1);
    put_str(line, shown);
    put(line, "\"", plain ? 0 : 1);
}

static void put_field(struct line *line, const struct log_field *f)
{
    bool json = sink.format == LOG_JSON;
    const char *str = f->str ? f->str : "";
    put_str(line, json ? ",\"" : " ");
    put_str(line, f->key);
    put_str(line, json ? "\":" : "=");
    if (f->kind == LOG_FIELD_INT)
        put_int(line, f->num);
    else if (f->kind == LOG_FIELD_BOOL)
        put_str(line, f->num ? "true" : "false");
    else if (json)
        put_json_string(line, str);
    else
        put_text_string(line, str);
}

static void put_time(struct line *line)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (now.tv_sec != sink.second || !sink.stamp[0]) {
        struct tm tm;
        gmtime_r(&now.tv_sec, &tm);
        (void)strftime(sink.stamp, sizeof(sink.stamp), "%Y-%m-%dT%H:%M:%S", &tm);
        sink.second = now.tv_sec;
    }
    char fraction[] = ".000000Z";
    long us = now.tv_nsec / 1000;
    for (size_t i = 6; i > 0; i--, us /= 10)
        fraction[i] = (char)('0' + us % 10);
    put_str(line, sink.stamp);
    put_str(line, fraction);
}

static void put_start(struct line *line, enum log_level level, const char *event)
{
    bool json = sink.format == LOG_JSON;
    put_str(line, json ? "{\"time\":\"" : "time=\"");
    put_time(line);
    put_str(line, json ? "\",\"level\":\"" : "\" level=");
    put_str(line, level_names[level]);
    put_str(line, json ? "\",\"msg\":\"" : " msg=");
    put_str(line, event);
    put_str(line, json ? "\"" : "");
}

void log_write(enum log_level level, const char *event, const struct log_field *fields, size_t n)
{
    if (level < sink.least)
        return;
    pthread_mutex_lock(&sink.lock);
    if (sizeof(sink.lines) - sink.len < LINE_MAX_BYTES)
        flush_locked();
    struct line line = { .p = sink.lines + sink.len };
    line.end = line.p + LINE_MAX_BYTES;
    put_start(&line, level, event);
    for (size_t i = 0; i < n; i++)
        put_field(&line, &fields[i]);
    put_str(&line, sink.format == LOG_JSON ? "}\n" : "\n");
    if (line.cut)
        sink.dropped++;
    else
        sink.len = (size_t)(line.p - sink.lines);
    if (!sink.gather || level >= LOG_WARN)
        flush_locked();
    pthread_mutex_unlock(&sink.lock);
}
