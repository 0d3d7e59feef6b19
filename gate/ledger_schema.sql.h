/*
 * The ledger's schema as text. Version 1. A change adds a step to the migrations and raises
 * STORE_SCHEMA.
 *
 * `answer` and `settle` are apart from `payment`: they hold the large bytes and go while the row
 * stays. Times ending in _s are wall clock, in _ms the ledger's own running time. State numbers are
 * those of payment_state.h.
 */
#pragma once

/* clang-format off */
#define LEDGER_SCHEMA_1 \
    "CREATE TABLE meta(name TEXT PRIMARY KEY, value) WITHOUT ROWID;" \
    "CREATE TABLE payment(" \
    "id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, state INTEGER NOT NULL," \
    "fingerprint BLOB NOT NULL, payer TEXT NOT NULL, identifier TEXT, secret BLOB," \
    "runs INTEGER NOT NULL, replays_max INTEGER NOT NULL, replay_window_s INTEGER NOT NULL," \
    "x402_version INTEGER NOT NULL, scheme TEXT NOT NULL, network TEXT NOT NULL," \
    "network_raw TEXT NOT NULL, asset TEXT NOT NULL, pay_to TEXT NOT NULL, amount TEXT NOT NULL," \
    "nonce TEXT NOT NULL, method TEXT NOT NULL, valid_before INTEGER NOT NULL," \
    "route TEXT NOT NULL, resource TEXT NOT NULL, created_s INTEGER NOT NULL," \
    "changed_s INTEGER NOT NULL, changed_ms INTEGER NOT NULL, sealed_s INTEGER," \
    "settled_s INTEGER, settled_ms INTEGER, tx TEXT, charged TEXT, reason TEXT, why TEXT," \
    "releases INTEGER NOT NULL DEFAULT 0, nonce_first INTEGER NOT NULL DEFAULT 0," \
    "facilitator TEXT, charge TEXT, empty_tx INTEGER, unproven_release INTEGER);" \
    "CREATE UNIQUE INDEX payment_tx ON payment(network, tx) WHERE tx <> '' AND state = 7;" \
    "CREATE INDEX payment_open ON payment(state, id) WHERE state IN (3, 6, 9, 10, 11);" \
    "CREATE INDEX payment_identifier ON payment(payer, identifier, id)" \
    " WHERE identifier IS NOT NULL;" \
    "CREATE INDEX payment_ended ON payment(changed_ms) WHERE state IN (4, 7, 8);" \
    "CREATE TABLE answer(id INTEGER PRIMARY KEY, bytes INTEGER NOT NULL, ended_ms INTEGER," \
    "status INTEGER NOT NULL, head BLOB NOT NULL, body BLOB NOT NULL);" \
    "CREATE INDEX answer_ended ON answer(ended_ms) WHERE ended_ms IS NOT NULL;" \
    "CREATE TABLE settle(id INTEGER PRIMARY KEY, body BLOB NOT NULL);" \
    "CREATE TABLE total(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;" \
    "INSERT INTO total VALUES('sealed_bytes', 0);" \
    "CREATE TRIGGER answer_in AFTER INSERT ON answer BEGIN UPDATE total SET value =" \
    " value + NEW.bytes WHERE name = 'sealed_bytes'; END;" \
    "CREATE TRIGGER answer_out AFTER DELETE ON answer BEGIN UPDATE total SET value =" \
    " value - OLD.bytes WHERE name = 'sealed_bytes'; END;"
/* clang-format on */
