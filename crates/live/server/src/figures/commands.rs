//! Answers to the commands of the admin interface.

use super::metric::figures;

figures! {
    /// `POST /api/reload`
    Reloaded as "Reloaded" {
        /// Changed settings in the file that take effect only after a restart.
        needs_restart: Vec<String>,
    }
}

figures! {
    /// `POST /api/restart`
    #[derive(Copy)]
    Restarting as "Restarting" {
        /// Whether another process was started to take over.
        restarting: bool,
    }
}

figures! {
    /// `POST /api/stop`
    #[derive(Copy)]
    Stopping as "Stopping" {
        /// Whether new calls are refused from now on.
        stopping: bool,
    }
}
