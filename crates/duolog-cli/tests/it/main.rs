//! The command as people and programs meet it: real processes, real files, real mounts.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

/// A home of its own for each test, and ways to run the command in it.
mod kit;

/// The configuration: file, environment, flags, and what is wrong with them.
/// Chats: begun, ended, told once.
mod chats;
mod config;
/// Conversations: items, branches, summaries, inboxes, statuses.
mod conversations;
/// The demo, as people and programs see it.
mod demo;
/// What is said: help, tables, JSON, errors, held by snapshots.
mod outputs;
/// The reference is what the command tree says.
mod reference;
/// The shapes of all answers, against their schemas.
mod shapes;

/// Commands as owners of runs: killed, suspended, overtaken.
mod exec;
/// Ids: unique prefixes, and where they are refused.
mod ids;

/// A run and a name that belongs to it, with flags anywhere.
mod names;
/// Commands that are asked again under the same operation id.
mod retry;

/// Commands that fail at any of their writes, and commands that race: one is one transaction.
mod atomic;
/// Blobs: counted, removed, lost.
mod blobs;
/// Answers that do not count all log lines, and say so.
mod completeness;
/// Stores and logs that are not what they should be.
mod damage;
/// What holds on either engine. Every function there is two tests.
mod engines;
/// Following, and readers that go away.
mod follow;
/// Lines and names that are refused, and odd ones that are taken as they are.
mod input;
/// Lines that were lost: never synced, or removed by hand.
mod loss;
/// Recording: pipes, signals and kills.
mod record;
/// Conversations: every dialect, every width, hostile text.
mod replay;
/// Schedules: switched, fired once, on record.
mod schedules;
/// Searching: answers, filters, kills, several at once, homes that cannot be written.
mod search;
/// Messages that are near: filters, packed embeddings, homes that cannot be written, full disks.
mod similar;

/// Runs: driven from a shell, killed, taken over, answered, refused.
mod runs;

/// Usage and search in the logs of other programs.
mod logs_dir;
/// Every log of a directory at once.
mod stream;
/// What Claude Code and Codex print, piped into a log and shown again.
mod streams;

/// What only a server does, and that no password is ever said.
mod server;

/// Sessions by name, moved, deleted in part, run by processes.
mod surface;
/// What a terminal is given of hostile text.
mod terminal;

/// Large logs in little memory.
mod memory;
/// Homes that cannot be used as they are: files, open to all, read-only, full.
mod places;
/// Several processes at once: locks, writers, copies.
mod together;
/// Homes that earlier versions wrote.
mod upgrade;
