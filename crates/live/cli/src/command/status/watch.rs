//! `status --watch`: asks the server each second and shows what it says, until somebody quits.

use super::scene::{Answer, Scene};
use super::view;
use crate::admin::Target;
use crate::picture::{Key, Screen};
use crate::print;
use anyhow::{Result, anyhow};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How often the server is asked.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// How soon a key acts.
const KEYS_EVERY: Duration = Duration::from_millis(100);
/// Watches until somebody quits, or nobody reads any more.
pub(super) fn run(target: &Target) -> Result<()> {
    // The first answer is the command's: where nobody answers there is nothing to watch.
    let first = Answer::ask(target)?;
    let scene = Scene::new(target.shown()?, Instant::now(), first);
    let answers = ask_on(target.clone());
    match Screen::open()? {
        Some(screen) => show(screen, scene, &answers),
        None => list(scene, &answers),
    }
}

/// Asks again and again, on a thread of its own: a server that hangs must not hold up the keys.
fn ask_on(target: Target) -> Receiver<Result<Answer, String>> {
    let (sender, answers) = channel();
    thread::spawn(move || {
        loop {
            thread::sleep(ASK_EVERY);
            let answer = Answer::ask(&target).map_err(|error| format!("{error:#}"));
            if sender.send(answer).is_err() {
                return;
            }
        }
    });
    answers
}

fn show(mut screen: Screen, mut scene: Scene, answers: &Receiver<Result<Answer, String>>) -> Result<()> {
    loop {
        loop {
            match answers.try_recv() {
                Ok(answer) => scene.take(Instant::now(), answer),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Err(stopped_asking()),
            }
        }
        screen.draw(|frame| view::draw(frame, &scene, Instant::now()))?;
        match screen.key(KEYS_EVERY)? {
            Some(Key::Quit) => return Ok(()),
            Some(key) => scene.scroll(key),
            None => {}
        }
    }
}

/// A line a second.
fn list(mut scene: Scene, answers: &Receiver<Result<Answer, String>>) -> Result<()> {
    let mut told = 0;
    print_line!("{told:4} s  {}", scene.text())?;
    loop {
        match answers.recv_timeout(2 * ASK_EVERY) {
            Ok(answer) => scene.take(Instant::now(), answer),
            // The server hangs: the line says so once the time for an answer is over.
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return Err(stopped_asking()),
        }
        let news: Vec<_> = scene.news.drain(..).map(|(_, news)| news).collect();
        news.iter().rev().try_for_each(print::line)?;
        told += 1;
        print_line!("{told:4} s  {}", scene.text())?;
    }
}

fn stopped_asking() -> anyhow::Error {
    anyhow!("the thread that asks the server has ended: a bug of this program")
}
