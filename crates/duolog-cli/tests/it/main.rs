//! The command as users and programs see it: real processes, real files, real mounts.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

/// A temporary home for each test, and functions that run the command in it.
mod kit;

/// Chats: started, ended, each message stored once.
mod chats;
/// The configuration: file, environment, flags, and their errors.
mod config;
/// Conversations: items, branches, summaries, inboxes, statuses.
mod conversations;
/// The demo.
mod demo;
/// Output: help, tables, JSON and errors, compared with snapshots.
mod outputs;
/// The reference, generated from the command tree.
mod reference;
/// The JSON of all answers, against their schemas.
mod shapes;

/// Commands as owners of runs: killed, suspended, overtaken.
mod exec;
/// Ids: unique prefixes, and commands that refuse them.
mod ids;

/// A run and a name that belongs to it, with flags anywhere.
mod names;
/// Commands that are retried with the same operation id.
mod retry;

/// Retries whose session has another name by then.
mod renamed;

/// Commands that fail at any of their writes, and commands that race: one command is one transaction.
mod atomic;
/// Blobs: counted, removed, lost.
mod blobs;
/// Answers that do not include all log lines, and report it.
mod completeness;
/// Damaged stores and logs.
mod damage;
/// Commands on both engines. Every function there is two tests.
mod engines;
/// Followers, and readers that close the pipe.
mod follow;
/// Lines and names that are refused, and unusual ones that are stored unchanged.
mod input;
/// Lines that were lost: never synced, or removed by hand.
mod loss;
/// Recording: pipes, signals and kills.
mod record;
/// Conversations: every dialect, every width, hostile text.
mod replay;
/// Schedules: overridden, fired once, recorded.
mod schedules;
/// Search: results, filters, kills, concurrent processes, read-only homes.
mod search;
/// Similar messages: filters, cached embeddings, read-only homes, full disks.
mod similar;

/// Runs: driven from a shell, killed, taken over, answered, refused.
mod runs;

/// Usage and search in the logs of other programs.
mod logs_dir;
/// All logs of a directory in one stream.
mod stream;
/// The output of Claude Code and Codex, recorded and replayed.
mod streams;

/// Commands with a server, and that no password is printed.
mod server;

/// Sessions by name: moved, deleted in part, run by processes.
mod surface;
/// Hostile text on a terminal.
mod terminal;

/// Large logs in little memory.
mod memory;
/// Homes that cannot be used: files, writable by others, read-only, full.
mod places;
/// Concurrent processes: locks, writers, copies.
mod together;
/// Homes of earlier versions.
mod upgrade;
