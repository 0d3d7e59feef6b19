#include "base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/text.h"

#define LINE_MAX_BYTES 8192

/* The sink; set once at start by log_open(), as house rules allow for the log alone. */
static struct {
    int fd;
    enum log_format format;
    enum log_level least;
    uint64_t dropped;
} sink = { .fd = 2, .format = LOG_TEXT, .least = LOG_INFO };

static const char *const level_names[] = {
    [LOG_DEBUG] = "debug",
    [LOG_INFO] = "info",
    [LOG_WARN] = "warning",
    [LOG_ERROR] = "error",
};

void log_open(int fd, enum log_format format, enum log_level least)
{
    sink.fd = fd;
    sink.format = format;
    sink.least = least;
    sink.dropped = 0;
}

uint64_t log_dropped(void)
{
    return sink.dropped;
}

static void put_json_string(struct buf *line, const char *s)
{
    buf_append_str(line, "\"");
    bool utf8 = text_utf8_valid(s, strlen(s));
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            buf_printf(line, "\\%c", c);
        else if (c < 0x20 || c == 0x7f || (!utf8 && c >= 0x80))
            buf_printf(line, "\\u%04x", c);
        else
            buf_append(line, &c, 1);
    }
    buf_append_str(line, "\"");
}

static void put_text_string(struct buf *line, const char *s)
{
    char shown[4096];
    text_safe(s, shown, sizeof(shown));
    bool plain = *shown && !strpbrk(shown, " =\"\\");
    buf_printf(line, plain ? "%s" : "\"%s\"", shown);
}

static void put_field(struct buf *line, const struct log_field *f)
{
    bool json = sink.format == LOG_JSON;
    const char *str = f->str ? f->str : "";
    buf_printf(line, json ? ",\"%s\":" : " %s=", f->key);
    if (f->kind == LOG_FIELD_INT)
        buf_printf(line, "%" PRId64, f->num);
    else if (f->kind == LOG_FIELD_BOOL)
        buf_append_str(line, f->num ? "true" : "false");
    else if (json)
        put_json_string(line, str);
    else
        put_text_string(line, str);
}

void log_write(enum log_level level, const char *event, const struct log_field *fields, size_t n)
{
    if (level < sink.least)
        return;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct tm tm;
    gmtime_r(&now.tv_sec, &tm);
    char stamp[40];
    size_t at = strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &tm);
    (void)snprintf(stamp + at, sizeof(stamp) - at, ".%06ldZ", now.tv_nsec / 1000);

    struct buf line;
    buf_init(&line, LINE_MAX_BYTES);
    buf_printf(&line,
               sink.format == LOG_JSON ? "{\"time\":\"%s\",\"level\":\"%s\",\"msg\":\"%s\""
                                       : "time=\"%s\" level=%s msg=%s",
               stamp, level_names[level], event);
    for (size_t i = 0; i < n; i++)
        put_field(&line, &fields[i]);
    buf_append_str(&line, sink.format == LOG_JSON ? "}\n" : "\n");
    if (line.failed || write(sink.fd, line.data, line.len) != (ssize_t)line.len)
        sink.dropped++;
    buf_fini(&line);
}
