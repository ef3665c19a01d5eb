//! What commands are answered with.

use super::metric::figures;

figures! {
    /// `POST /api/reload`
    Reloaded as "Reloaded" {
        /// What changed in the file but needs a restart.
        needs_restart: Vec<String>,
    }
}

figures! {
    /// `POST /api/restart`
    #[derive(Copy)]
    Restarting as "Restarting" {
        /// Another process has been started, which takes over.
        restarting: bool,
    }
}

figures! {
    /// `POST /api/stop`
    #[derive(Copy)]
    Stopping as "Stopping" {
        /// No new calls are taken.
        stopping: bool,
    }
}
