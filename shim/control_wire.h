/*
 * What goes over the control socket, as text: requests built, the end of an answer found, answers
 * taken apart. Pure. Private to control.c and its tests.
 *
 * Answers come from a peer that may be hostile: size and depth are capped, and only the wanted
 * numbers are taken, each in its range.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "shim/control.h"

#define CONTROL_DEPTH_MAX 16

/* Finds the end of one JSON object by bracket depth outside strings. */
struct control_scan {
    unsigned depth;
    bool in_string;
    bool escaped;
};

enum control_scan_result {
    CONTROL_SCAN_MORE,
    CONTROL_SCAN_END,
    CONTROL_SCAN_BAD, /* no object, or nested too deep */
};

/* *used is how many bytes belong to the object. */
enum control_scan_result control_scan(struct control_scan *scan, const char *data, size_t len,
                                      size_t *used);

enum control_call {
    CONTROL_CALL_WAIT,   /* Wait and WaitPID: a wait status */
    CONTROL_CALL_EXEC,   /* a pid */
    CONTROL_CALL_SIGNAL, /* nothing */
    CONTROL_CALL_EVENT,
    CONTROL_CALL_PROCESSES,
    CONTROL_CALL_STATE,
    CONTROL_CALL_IDENTIFY, /* as STATE, an unknown method being fine */
    CONTROL_CALL_NETWORK,
};

/* Largest answer that is taken. */
size_t control_answer_max(enum control_call call);

/* An answer with what its reply points to. */
struct control_answer {
    struct control_reply reply;
    bool has_pgid;
    bool state_known;
    struct control_process *processes; /* owned, as are the others */
    struct control_event *event;
    struct control_network *network;
};

/* `container` picks this container's share out of an event. Always fills `out`. */
void control_answer_parse(enum control_call call, const char *text, size_t len,
                          const char *container, struct control_answer *out);
void control_answer_fini(struct control_answer *answer);

/* Fresh request texts; NULL where a string is not UTF-8. */
char *control_request_container(const char *method, const char *container);
char *control_request_null(const char *method);
char *control_request_signal(const char *container, int32_t pid, int signo, int mode);
char *control_request_wait_pid(const char *container, int32_t pid);
char *control_request_exec(const struct control_exec *exec);
