/*
 * `utter-gate ledger …`: what the ledger holds, for people and for spreadsheets; and the two things
 * an operator may do to it (init, resolve). Reads the live file in short transactions, page by
 * page, so that a long export holds no checkpoint up.
 */
#pragma once

/* argv[0] is "ledger". Prints to stdout, complains to stderr. Returns the exit code: 0, 1 failed, 2
 * wrong usage. */
int ledger_cli(int argc, char **argv);
