/*
 * The ledger as a file among files: where it may stand, who holds it, and whether it is still the
 * one it was.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* ERR_PRECONDITION when the directory of `path` is on tmpfs, overlay, NFS or another file system
 * that loses or tears what was synced, unless `force`. */
CHECKED enum err_kind ledger_file_check_fs(const char *path, bool force, struct err *err);

/* Takes the OFD lock on PATH.lock (made if missing) and returns its descriptor; ERR_EXISTS when
 * another process holds it. The lock goes with the descriptor, however the process ends. */
CHECKED enum err_kind ledger_file_lock(const char *path, int *fd, struct err *err);
/* The same for the one that waits in standby, on a file of its own. */
CHECKED enum err_kind ledger_file_lock_standby(const char *path, int *fd, struct err *err);

/* False where a file has another number each time it is looked at from a new process: a host's
 * folder seen from within gVisor. There a copy of a ledger cannot be told from the ledger. */
bool ledger_file_inode_lasts(const char *path);
/* A file's identity: changes when it was copied or restored. 0 when it does not exist. */
uint64_t ledger_file_inode(const char *path);

/* Syncs the directory that holds `path`: a new name in it survives a loss of power. */
CHECKED enum err_kind ledger_file_sync_dir(const char *path, struct err *err);

/* 32 hex digits from the system's random source. */
CHECKED enum err_kind ledger_file_new_id(char out[33], struct err *err);

/* One spelling per transaction: 0x hashes in lower case, everything else byte for byte. */
void ledger_spell_transaction(const char *s, char *out, size_t size);
