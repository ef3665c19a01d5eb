//! Another estimator, to compare: by how long requests wait for those ahead of them.

/// Unknowns: what every row has, what an INVITE adds, what any other request adds.
const UNKNOWNS: usize = 3;
/// Below this determinant, of normal equations with a diagonal of one, rows do not tell the unknowns apart.
const LEAST_DETERMINANT: f64 = 1e-3;
/// A time of more than this many times what was expected counts as that: the server stood still.
const CLIP: f64 = 4.0;
/// Requests that have to have been answered.
const ROWS_MIN: f64 = 200.0;

/// Least squares of the time that a request takes, over what is ahead of it and itself, with a memory that fades:
///
/// `took = c0 + c1 * INVITEs + c2 * others`: a server that takes one after the other answers a request when it has done
/// all that came before. A time weighs the less the more is ahead, since each of them adds its own chance.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waits {
    left: [[f64; UNKNOWNS]; UNKNOWNS],
    right: [f64; UNKNOWNS],
    rows: f64,
    /// c0, c1 and c2 as of the last [`Self::fade`].
    known: Option<[f64; UNKNOWNS]>,
}

impl Waits {
    /// A request was answered that was the last of so many INVITEs and others.
    pub(crate) fn note(&mut self, [invites, others]: [u32; 2], seconds: f64) {
        let x = [1.0, f64::from(invites), f64::from(others)];
        let expected =
            self.known.map_or(f64::INFINITY, |known| known.iter().zip(x).map(|(c, x)| c * x).sum());
        let y = seconds.min(CLIP * expected.max(1e-6));
        let weight = 1.0 / f64::from(invites + others);
        for (line, (right, xi)) in self.left.iter_mut().zip(self.right.iter_mut().zip(x)) {
            line.iter_mut().zip(x).for_each(|(sum, xj)| *sum += weight * xi * xj);
            *right += weight * xi * y;
        }
        self.rows += 1.0;
    }

    /// Lets all that was noted count this part of what it did.
    pub(crate) fn fade(&mut self, part: f64) {
        self.known = self.solve().filter(|[_, invite, other]| *invite > 0.0 && *other > 0.0);
        self.left.iter_mut().flatten().chain(&mut self.right).for_each(|sum| *sum *= part);
        self.rows *= part;
    }

    /// What an INVITE costs beside another request, as far as that is known.
    pub(crate) fn ratio(&self) -> Option<f64> {
        let [_, invite, other] = self.solve()?;
        (self.rows > ROWS_MIN && invite > 0.0 && other > 0.0).then(|| invite / other)
    }

    /// By Cramer's rule; `None` where the rows do not tell the unknowns.
    fn solve(&self) -> Option<[f64; UNKNOWNS]> {
        // With a diagonal of one the determinant says how alike columns are.
        let scale: [f64; UNKNOWNS] = core::array::from_fn(|i| self.left[i][i].sqrt());
        if scale.iter().any(|scale| *scale <= 0.0) {
            return None;
        }
        let scaled: [[f64; UNKNOWNS]; UNKNOWNS] =
            core::array::from_fn(|i| core::array::from_fn(|j| self.left[i][j] / scale[i] / scale[j]));
        let whole = determinant(&scaled);
        let unknown = |column: usize| {
            let mut other = scaled;
            for (line, (right, scale)) in other.iter_mut().zip(self.right.iter().zip(scale)) {
                line[column] = right / scale;
            }
            determinant(&other) / whole / scale[column]
        };
        (whole >= LEAST_DETERMINANT).then(|| core::array::from_fn(unknown))
    }
}

fn determinant(of: &[[f64; UNKNOWNS]; UNKNOWNS]) -> f64 {
    let minor = |at: usize| {
        let [left, right] = [(at + 1) % UNKNOWNS, (at + 2) % UNKNOWNS];
        of[1][left] * of[2][right] - of[1][right] * of[2][left]
    };
    (0..UNKNOWNS).map(|at| of[0][at] * minor(at)).sum()
}

#[test]
fn exact_rows_are_solved_exactly_and_rows_that_are_alike_say_nothing() {
    let mut waits = Waits::default();
    for (invites, others) in [(1, 0), (0, 1), (2, 1), (1, 3), (4, 4)] {
        waits.note([invites, others], 0.5 + 1.75 * f64::from(invites) + f64::from(others));
    }
    for (found, put) in waits.solve().expect("five rows").into_iter().zip([0.5, 1.75, 1.0]) {
        assert!((found - put).abs() < 1e-9, "{found} for {put}");
    }
    let mut alike = Waits::default();
    for count in 1..9 {
        alike.note([count, count], f64::from(count));
    }
    assert_eq!(alike.solve(), None);
}
