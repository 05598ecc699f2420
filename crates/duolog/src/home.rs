//! The location of a home's files, as a pure function of the process environment.

use std::path::{Path, PathBuf};

/// A home: its directories for state, cache and configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    /// The directory of the logs and the state.
    pub state: PathBuf,
    /// The directory of files that may be deleted at any time.
    pub cache: PathBuf,
    /// The directory of the configuration.
    pub config: PathBuf,
    /// The way in which the home was found.
    pub source: HomeSource,
}

/// The way in which a home was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HomeSource {
    /// The caller named it (`--home`).
    Named,
    /// The environment variable `DUOLOG_HOME`.
    Environment,
    /// A `.duolog` folder in the current directory or a parent.
    Project,
    /// The user's directories.
    User,
}

impl HomeSource {
    /// Returns the text for messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Named => "--home",
            Self::Environment => "DUOLOG_HOME",
            Self::Project => ".duolog folder",
            Self::User => "user directories",
        }
    }
}

/// The folder that makes its parent directory a home.
pub const PROJECT_FOLDER: &str = ".duolog";

/// The parts of the process environment that locate a home.
#[derive(Clone, Default)]
pub struct Surroundings {
    /// The path that the caller named.
    pub named: Option<PathBuf>,
    /// The value of `DUOLOG_HOME`.
    pub duolog_home: Option<PathBuf>,
    /// The current directory.
    pub cwd: PathBuf,
    /// The user's home directory.
    pub user_home: Option<PathBuf>,
    /// The value of `XDG_STATE_HOME`.
    pub xdg_state_home: Option<PathBuf>,
    /// The value of `XDG_CACHE_HOME`.
    pub xdg_cache_home: Option<PathBuf>,
    /// The value of `XDG_CONFIG_HOME`.
    pub xdg_config_home: Option<PathBuf>,
}

/// The error of [`Home::discover`]: no home was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no home: neither --home nor DUOLOG_HOME is given, no .duolog folder is here or above, and HOME is not set"
)]
pub struct NoHome;

impl Home {
    /// Returns the home in a directory, with all of its roles in it.
    pub fn beneath(directory: &Path) -> Self {
        Self::of(directory, HomeSource::Named)
    }

    fn of(directory: &Path, source: HomeSource) -> Self {
        let role = |name| directory.join(name);
        Self { state: role("state"), cache: role("cache"), config: role("config"), source }
    }

    /// Finds the home. The first of these that exists is used: the named path, `DUOLOG_HOME`, a project folder, the
    /// user's directories.
    ///
    /// `is_folder` returns true if a directory exists; nothing else is read.
    ///
    /// # Errors
    ///
    /// Returns an error if none of them exists.
    pub fn discover(around: &Surroundings, is_folder: &dyn Fn(&Path) -> bool) -> Result<Self, NoHome> {
        // Absolute, so that a later change of the current directory does not move the home.
        let absolute = |path: &Path| around.cwd.join(path);
        let given = |path: &Option<PathBuf>| path.as_deref().filter(|path| !path.as_os_str().is_empty()).map(absolute);
        if let Some(directory) = given(&around.named) {
            return Ok(Self::of(&directory, HomeSource::Named));
        }
        if let Some(directory) = given(&around.duolog_home) {
            return Ok(Self::of(&directory, HomeSource::Environment));
        }
        let folders = around.cwd.ancestors().map(|at| at.join(PROJECT_FOLDER));
        if let Some(folder) = folders.into_iter().find(|folder| is_folder(folder)) {
            return Ok(Self::of(&folder, HomeSource::Project));
        }
        // The XDG specification ignores relative values.
        let role = |xdg: &Option<PathBuf>, fallback: &str| {
            let base = xdg.clone().filter(|path| path.is_absolute());
            let base = base.or_else(|| Some(given(&around.user_home)?.join(fallback))).ok_or(NoHome)?;
            Ok(base.join("duolog"))
        };
        Ok(Self {
            state: role(&around.xdg_state_home, ".local/state")?,
            cache: role(&around.xdg_cache_home, ".cache")?,
            config: role(&around.xdg_config_home, ".config")?,
            source: HomeSource::User,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around() -> Surroundings {
        Surroundings { cwd: "/srv/project/src".into(), user_home: Some("/home/ada".into()), ..Surroundings::default() }
    }

    fn state_of(around: &Surroundings, folder: &str) -> PathBuf {
        Home::discover(around, &|path| path == Path::new(folder)).expect("a home").state
    }

    #[test]
    fn the_first_source_that_exists_wins() {
        let mut around = around();
        assert_eq!(state_of(&around, "-"), Path::new("/home/ada/.local/state/duolog"));
        around.xdg_state_home = Some("/xdg".into());
        assert_eq!(state_of(&around, "-"), Path::new("/xdg/duolog"));
        assert_eq!(state_of(&around, "/srv/.duolog"), Path::new("/srv/.duolog/state"));
        around.duolog_home = Some("/env".into());
        assert_eq!(state_of(&around, "/srv/.duolog"), Path::new("/env/state"));
        around.named = Some("named".into());
        assert_eq!(state_of(&around, "/srv/.duolog"), Path::new("/srv/project/src/named/state"));
    }

    #[test]
    fn empty_or_relative_values_count_as_unset() {
        let mut around = around();
        around.duolog_home = Some(PathBuf::new());
        around.xdg_state_home = Some("relative".into());
        assert_eq!(state_of(&around, "-"), Path::new("/home/ada/.local/state/duolog"));
        around.user_home = None;
        assert_eq!(Home::discover(&around, &|_| false), Err(NoHome));
    }
}
