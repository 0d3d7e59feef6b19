/*
 * A SQLite VFS that knows what a loss of power would leave: writes go to the real file, and to an
 * image beside it (NAME.disk) only when the file is synced. power_vfs_die() then lets some of the
 * unsynced writes reach the image, or none: dropped, out of order, torn at a sector. A file that
 * was created here exists on the disk once it was synced (SQLite's unix VFS syncs the directory
 * with it).
 */
#pragma once

enum power_loss {
    POWER_DROP,    /* nothing unsynced survives */
    POWER_REORDER, /* any subset survives, whatever order it was written in */
    POWER_TEAR,    /* as REORDER, and writes may survive in part, by sectors of 512 bytes */
    POWER_LOSS_N,
};

/* Registers the VFS "power". */
void power_vfs_register(enum power_loss loss, unsigned seed);
/* From now on each sync takes so long. */
void power_vfs_slow(unsigned sync_ms);
/* Runs right before the process dies. */
void power_vfs_die(void);
/* In the parent, after the death: puts the images in the place of the files (same inode), removes
 * what never reached the disk and the shared-memory index. */
void power_vfs_restore(const char *path);
/* After a life that ended in order: the files are the disk. */
void power_vfs_forget(const char *path);
