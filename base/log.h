/*
 * One line per event: an event word and typed fields, as text (time level event k=v …) or JSON.
 *
 *     log_info("task_started", log_str("id", id), log_int("pid", pid));
 *
 * Values are escaped by the logger, so outside text cannot forge a line. Pure files do not log.
 * The log's only state is the sink chosen at start by log_open(). Any thread may log.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum log_level {
    LOG_DEBUG,
    LOG_INFO,
    LOG_WARN,
    LOG_ERROR,
};

enum log_format {
    LOG_TEXT, /* time="…" level=info msg=event k=v, as containerd's own lines look */
    LOG_JSON,
};

struct log_field {
    const char *key;
    enum { LOG_FIELD_STR, LOG_FIELD_INT, LOG_FIELD_BOOL } kind;
    const char *str; /* borrowed for the call; NULL prints as "" */
    int64_t num;
};

static inline struct log_field log_str(const char *key, const char *value)
{
    return (struct log_field){ .key = key, .kind = LOG_FIELD_STR, .str = value };
}

static inline struct log_field log_int(const char *key, int64_t value)
{
    return (struct log_field){ .key = key, .kind = LOG_FIELD_INT, .num = value };
}

static inline struct log_field log_bool(const char *key, bool value)
{
    return (struct log_field){ .key = key, .kind = LOG_FIELD_BOOL, .num = value };
}

/* fd is borrowed and may be non-blocking: a line that does not fit is dropped and counted. */
void log_open(int fd, enum log_format format, enum log_level least);
/* Lines below a warning are kept until log_flush(), a warning, or 56 KiB of them: one write for
 * many. Who gathers flushes before each wait (loop_before_wait) and before the end; a process that
 * is killed loses the lines of the turn it was in. log_open() turns it off. */
void log_gather(bool on);
void log_flush(void);
void log_write(enum log_level level, const char *event, const struct log_field *fields, size_t n);
uint64_t log_dropped(void);

#define LOG_FIELDS_(...)                                                                           \
    (const struct log_field[]){ __VA_ARGS__ },                                                     \
        sizeof((const struct log_field[]){ __VA_ARGS__ }) / sizeof(struct log_field)

#define log_debug(event, ...) log_write(LOG_DEBUG, event, LOG_FIELDS_(__VA_ARGS__))
#define log_info(event, ...) log_write(LOG_INFO, event, LOG_FIELDS_(__VA_ARGS__))
#define log_warn(event, ...) log_write(LOG_WARN, event, LOG_FIELDS_(__VA_ARGS__))
#define log_error(event, ...) log_write(LOG_ERROR, event, LOG_FIELDS_(__VA_ARGS__))
