//! Figures as files: a table and a picture for each plot, and one page that puts them beside what the paper states.

mod csv;
mod draw;
mod figure;
mod html;
mod scale;

pub use csv::field as csv_field;
pub use figure::{
    At, Axis, Figure, Plot, PlotSeries, Point, Reference, ReportTable, Scale, Statement, StatementVerdict,
    Style,
};

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Makes the folder, and sees whether a file can be written there: before a long run, not after it.
///
/// # Errors
/// Why not.
pub fn prepare(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let probe = dir.join(format!(".probe-{}", std::process::id()));
    // Some bytes: a disk that is full still makes empty files.
    let written = fs::write(&probe, [0; 4096]);
    let _ = fs::remove_file(&probe);
    written
}

/// Writes `STEM.csv` and `STEM.svg` for each plot (see [`Figure::stem`]) and `report.html` for all
/// figures into a folder, which is made if need be. Files of the same names are replaced. The same figures give the
/// same bytes. Returns the path of the page.
///
/// The page is one file without any reference to another server; it links to the files beside it.
///
/// # Errors
/// When the folder cannot be made or a file cannot be written.
pub fn write(dir: &Path, figures: &[Figure]) -> io::Result<PathBuf> {
    fs::create_dir_all(dir)?;
    let mut pictures = Vec::new();
    for figure in figures {
        let mut drawn = Vec::new();
        for (index, plot) in figure.plots.iter().enumerate() {
            let stem = figure.stem(index);
            let picture = draw::draw(plot, &stem);
            fs::write(dir.join(format!("{stem}.csv")), csv::table(plot))?;
            fs::write(dir.join(format!("{stem}.svg")), &picture)?;
            drawn.push(picture);
        }
        pictures.push(drawn);
    }
    let page = dir.join("report.html");
    fs::write(&page, html::page(figures, &pictures))?;
    Ok(page)
}
