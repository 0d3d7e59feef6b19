#include "deploy/fetch.h"

#include <curl/curl.h>
#include <stdio.h>
#include <string.h>

#include "base/own.h"

static size_t take(char *data, size_t size, size_t n, void *arg)
{
    struct buf *out = arg;
    size_t len = size * n;
    if (out && out->len + len <= out->max)
        buf_append(out, data, len);
    return len;
}

DEFINE_CLEANUP(CURL, curl_easy_cleanup, curl_freep)
DEFINE_CLEANUP(struct curl_slist, curl_slist_free_all, slist_freep)

enum err_kind fetch_get(const struct fetch *fetch, long *status, struct buf *out, struct err *err)
{
    CURL *curl CLEANUP(curl_freep) = curl_easy_init();
    struct curl_slist *to CLEANUP(slist_freep) = NULL;
    struct curl_slist *headers CLEANUP(slist_freep) = NULL;
    char why[CURL_ERROR_SIZE] = "";
    if (!curl)
        return err_set(err, ERR_INTERNAL, "libcurl");
    if (fetch->address) {
        char *entry CLEANUP_FREE = xasprintf("::%s:", fetch->address);
        to = curl_slist_append(NULL, entry);
    }
    if (fetch->host) {
        char *header CLEANUP_FREE = xasprintf("Host: %s", fetch->host);
        headers = curl_slist_append(NULL, header);
    }
    curl_easy_setopt(curl, CURLOPT_URL, fetch->url);
    curl_easy_setopt(curl, CURLOPT_CONNECT_TO, to);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, fetch->socket);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)fetch->timeout_ms);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, why);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, out);
    if (fetch->any_certificate) {
        curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 0L);
        curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 0L);
    }
    CURLcode rc = curl_easy_perform(curl);
    if (rc != CURLE_OK)
        return err_set(err, ERR_UNAVAILABLE, "%s: %s", fetch->url,
                       why[0] ? why : curl_easy_strerror(rc));
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, status);
    return ERR_OK;
}
