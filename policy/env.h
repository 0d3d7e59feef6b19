/*
 * Inside policy/: the environment's names and forms. Pure.
 *
 * A handler's environment is no place for a secret: every default name has a form that its value
 * must have, an operator's further names take anything that does not look like a secret.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct env_name {
    const char *name;
    bool (*form)(const char *value);
    const char *form_text; /* "40 hex digits" */
};

/* One image or tool and the names that it sets. */
struct env_source {
    const char *source;           /* "python: docker-library/python 3.12/bookworm, 2025-01" */
    const struct env_name *names; /* ends with a NULL name */
};

/* The default allow-list by source; ends with a NULL source. */
extern const struct env_source env_sources[];

/* NULL if the name is not among the defaults. `pod`: the families that Kubernetes adds count too
 * (WEB_SERVICE_HOST, WEB_PORT_80_TCP_ADDR, …). */
const struct env_name *env_name_find(const char *name, bool pod);

#define ENV_NAME_MAX 128

/* Splits "NAME=value"; false if there is no '=', the name is empty, longer than ENV_NAME_MAX - 1,
 * holds anything but letters, digits and '_', or starts with a digit. */
bool env_split(const char *entry, char name[ENV_NAME_MAX], const char **value);

/* The service that a service-link name is about ("WEB" of WEB_PORT_80_TCP_ADDR); false if the name
 * is none. */
bool env_link_service(const char *name, char service[ENV_NAME_MAX]);

/* What a value looks like, as words for a finding ("a JSON Web Token"); NULL: no known secret. */
const char *env_secret_shape(const char *value);
/* The same by guess: 32 and more characters of hex, or of mixed letters and digits. Only for names
 * that have no form of their own. */
const char *env_secret_guess(const char *value);
