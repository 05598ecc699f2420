//! `duolog config`.

mod check;
mod init;
mod show;

use super::Context;

commands! {
/// The commands of `duolog config`.
Config {
    Show(show::Show),
    Check(check::Check),
    Init(init::Init),
}}
