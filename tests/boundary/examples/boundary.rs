//! Prints what the boundary costs: `cargo run --release -p fmail-boundary --example boundary`.

fn main() {
    for figure in fmail_boundary::bench::measure(500) {
        let (ratio, goal) = (figure.ratio(), figure.goal);
        println!(
            "{:<24} {:>9.3?} in process {:>9.3?} over the boundary {ratio:.2}x (goal {goal}x)",
            figure.what, figure.in_process, figure.boundary
        );
    }
}
