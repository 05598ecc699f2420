//! `duolog config`.

mod check;
mod show;

use super::Context;

commands! {
/// What to do with the configuration.
Config {
    Show(show::Show),
    Check(check::Check),
}}
