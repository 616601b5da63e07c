//! The scenes: each draws an SVG of 1,200 × 800 units from a source of random numbers.

use std::fmt::Write as _;

use super::random::Random;

const WIDTH: f64 = 1_200.0;
const HEIGHT: f64 = 800.0;

type Scene = fn(&mut Random) -> String;

/// A scene by its name.
pub(super) fn named(name: &str) -> Option<Scene> {
    Some(match name {
        "ridge" => ridge,
        "sea" => sea,
        "city" => city,
        "field" => field,
        "aurora" => aurora,
        "table" => table,
        _ => return None,
    })
}

/// Top and bottom of a sky, its sun, and the farthest and nearest land.
struct Palette {
    sky: [&'static str; 3],
    sun: &'static str,
    land: [[f64; 3]; 2],
}

const DAYS: [Palette; 5] = [
    Palette {
        sky: ["#2b3a67", "#c86b7c", "#ffcf99"],
        sun: "#fff0d0",
        land: [[196.0, 124.0, 130.0], [38.0, 34.0, 58.0]],
    },
    Palette {
        sky: ["#5aa7d8", "#a9d6e8", "#f3f3e2"],
        sun: "#fffbe6",
        land: [[150.0, 188.0, 200.0], [32.0, 70.0, 72.0]],
    },
    Palette {
        sky: ["#1d3b4f", "#4f8a8b", "#f4d6a0"],
        sun: "#ffe9b8",
        land: [[130.0, 160.0, 150.0], [20.0, 42.0, 46.0]],
    },
    Palette {
        sky: ["#6d4c91", "#e58c8a", "#fde2b3"],
        sun: "#fff6e0",
        land: [[190.0, 130.0, 160.0], [52.0, 34.0, 74.0]],
    },
    Palette {
        sky: ["#8ba6b5", "#c9d3d0", "#efe7da"],
        sun: "#fffaf0",
        land: [[176.0, 186.0, 186.0], [58.0, 72.0, 78.0]],
    },
];

/// The colour between two, as `rgb(…)`.
fn mix([near, far]: [[f64; 3]; 2], part: f64) -> String {
    let at = |i: usize| (near[i] + (far[i] - near[i]) * part).round();
    format!("rgb({},{},{})", at(0), at(1), at(2))
}

fn open(stops: [&str; 3]) -> String {
    let [top, middle, bottom] = stops;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" \
         height=\"{HEIGHT}\"><defs><linearGradient id=\"s\" x2=\"0\" y2=\"1\"><stop stop-color=\"{top}\"/>\
         <stop offset=\".6\" stop-color=\"{middle}\"/><stop offset=\"1\" stop-color=\"{bottom}\"/></linearGradient>\
         </defs><path fill=\"url(#s)\" d=\"M0 0h{WIDTH}v{HEIGHT}H0z\"/>"
    )
}

fn close(mut svg: String) -> String {
    svg.push_str("</svg>");
    svg
}

fn put(svg: &mut String, element: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = svg.write_fmt(element);
}

fn disc(svg: &mut String, (x, y): (f64, f64), radius: f64, fill: &str, opacity: f64) {
    put(
        svg,
        format_args!(
            "<circle cx=\"{x:.0}\" cy=\"{y:.0}\" r=\"{radius:.1}\" fill=\"{fill}\" opacity=\"{opacity:.2}\"/>"
        ),
    );
}

/// A sun with a halo.
fn sun(svg: &mut String, at: (f64, f64), radius: f64, fill: &str) {
    for (grown, opacity) in [(3.2, 0.10), (2.0, 0.16), (1.0, 0.95)] {
        disc(svg, at, radius * grown, fill, opacity);
    }
}

/// The height of a line of hills at `x`: three waves of random phase.
struct Hills {
    base: f64,
    waves: [(f64, f64, f64); 3],
}

impl Hills {
    fn new(random: &mut Random, base: f64, height: f64, sharpness: f64) -> Self {
        let mut wave = |share: f64, length: f64| {
            (height * share, length * random.between(0.8, 1.3), random.between(0.0, std::f64::consts::TAU))
        };
        Self { base, waves: [wave(0.6, 700.0), wave(0.3, 260.0), wave(0.12 * sharpness, 90.0)] }
    }

    fn at(&self, x: f64) -> f64 {
        let waves = self.waves.iter();
        self.base
            - waves
                .map(|(height, length, phase)| height * (x / length * std::f64::consts::TAU + phase).sin())
                .sum::<f64>()
    }

    fn draw(&self, svg: &mut String, fill: &str, step: usize) {
        put(svg, format_args!("<path fill=\"{fill}\" d=\"M0 {HEIGHT}"));
        for x in (0..=WIDTH as usize).step_by(step) {
            put(svg, format_args!("L{x} {:.0}", self.at(x as f64)));
        }
        put(svg, format_args!("L{WIDTH} {HEIGHT}z\"/>"));
    }
}

fn ridge(random: &mut Random) -> String {
    let palette = random.pick(&DAYS);
    let mut svg = open(palette.sky);
    let place = (random.between(250.0, 950.0), random.between(150.0, 330.0));
    sun(&mut svg, place, random.between(38.0, 64.0), palette.sun);
    for layer in 0..5 {
        let depth = f64::from(layer) / 4.0;
        let hills = Hills::new(random, 400.0 + 85.0 * f64::from(layer), 120.0 - 18.0 * f64::from(layer), 1.6);
        hills.draw(&mut svg, &mix(palette.land, depth), 24);
    }
    close(svg)
}

fn sea(random: &mut Random) -> String {
    let palette = random.pick(&DAYS);
    let mut svg = open(palette.sky);
    let horizon = random.between(400.0, 470.0);
    let x = random.between(350.0, 850.0);
    sun(&mut svg, (x, horizon - random.between(30.0, 130.0)), 56.0, palette.sun);
    for row in 0..9 {
        let depth = f64::from(row) / 8.0;
        let top = horizon + depth * depth * (HEIGHT - horizon) * 0.9;
        let waves =
            Hills { base: top, waves: [(2.0 + 9.0 * depth, 180.0, depth * 9.0), (2.0, 60.0, depth), (0.0, 1.0, 0.0)] };
        waves.draw(&mut svg, &mix(palette.land, 0.15 + 0.8 * depth), 30);
        let width = 90.0 + 160.0 * depth * random.between(0.5, 1.0);
        let left = x - width / 2.0 + random.between(-20.0, 20.0);
        put(
            &mut svg,
            format_args!(
                "<rect x=\"{left:.0}\" y=\"{:.0}\" width=\"{width:.0}\" height=\"{:.0}\" rx=\"3\" fill=\"{}\" \
                 opacity=\".45\"/>",
                top + 12.0,
                3.0 + 4.0 * depth,
                palette.sun
            ),
        );
    }
    let left = random.between(150.0, 950.0);
    let scale = random.between(0.7, 1.2);
    put(
        &mut svg,
        format_args!(
            "<g transform=\"translate({left:.0} {:.0}) scale({scale:.2})\" fill=\"#fdf6ec\"><path d=\"M0-120V-8H62z\"/>\
             <path d=\"M-6-96V-8H-44z\" opacity=\".8\"/><path d=\"M-58 0H78L58 22H-40z\" fill=\"#5b3a38\"/></g>",
            horizon + 70.0
        ),
    );
    close(svg)
}

fn city(random: &mut Random) -> String {
    let palette = random.pick(&DAYS[..4]);
    let mut svg = open(palette.sky);
    sun(&mut svg, (random.between(200.0, 1_000.0), 260.0), 50.0, palette.sun);
    for layer in 0..3 {
        let depth = f64::from(layer) / 2.0;
        let fill = mix(palette.land, 0.3 + 0.7 * depth);
        let mut left = -random.between(0.0, 60.0);
        while left < WIDTH {
            let width = random.between(60.0, 130.0);
            let top = 620.0 - random.between(60.0, 330.0) + 130.0 * depth;
            put(
                &mut svg,
                format_args!("<path fill=\"{fill}\" d=\"M{left:.0} {HEIGHT}V{top:.0}h{width:.0}V{HEIGHT}z\"/>"),
            );
            windows(&mut svg, random, (left, top), width, layer);
            left += width + random.between(0.0, 14.0);
        }
    }
    close(svg)
}

/// Lit windows of a building; only near buildings have some.
fn windows(svg: &mut String, random: &mut Random, (left, top): (f64, f64), width: f64, layer: u32) {
    if layer == 0 {
        return;
    }
    let mut y = top + 16.0;
    let mut path = String::new();
    while y < HEIGHT - 30.0 {
        let mut x = left + 10.0;
        while x < left + width - 16.0 {
            if random.between(0.0, 1.0) < 0.16 {
                put(&mut path, format_args!("M{x:.0} {y:.0}h9v13h-9z"));
            }
            x += 20.0;
        }
        y += 30.0;
    }
    if !path.is_empty() {
        put(svg, format_args!("<path fill=\"#ffdf9e\" opacity=\".85\" d=\"{path}\"/>"));
    }
}

fn field(random: &mut Random) -> String {
    let mut svg = open(*random.pick(&[["#74b9e0", "#bfe3ef", "#fdf7e3"], ["#f2b880", "#f8d9a8", "#fff4dc"]]));
    for _ in 0..4 {
        let x = random.between(0.0, WIDTH);
        let y = random.between(80.0, 280.0);
        for puff in 0..4 {
            let at = (x + 52.0 * f64::from(puff), y + random.between(-12.0, 12.0));
            disc(&mut svg, at, random.between(28.0, 52.0), "#fff", 0.55);
        }
    }
    let greens =
        *random.pick(&[[[178.0, 205.0, 140.0], [58.0, 110.0, 72.0]], [[232.0, 205.0, 120.0], [150.0, 110.0, 52.0]]]);
    for layer in 0..4 {
        let depth = f64::from(layer) / 3.0;
        let hills = Hills::new(random, 470.0 + 95.0 * f64::from(layer), 46.0, 0.2);
        hills.draw(&mut svg, &mix(greens, depth), 40);
        for _ in 0..(6 - layer) {
            let x = random.between(20.0, WIDTH - 20.0);
            let y = hills.at(x);
            let size = 14.0 + 16.0 * depth;
            put(
                &mut svg,
                format_args!(
                    "<path stroke=\"#5a4632\" stroke-width=\"{:.0}\" d=\"M{x:.0} {y:.0}v-{:.0}\"/>",
                    size / 4.0,
                    size * 1.6
                ),
            );
            disc(&mut svg, (x, y - size * 2.2), size, &mix(greens, (depth + 0.55).min(1.0)), 1.0);
        }
    }
    close(svg)
}

fn aurora(random: &mut Random) -> String {
    let mut svg = open(["#050b1f", "#10254a", "#1f4a5c"]);
    for _ in 0..90 {
        let at = (random.between(0.0, WIDTH), random.between(0.0, 480.0));
        disc(&mut svg, at, random.between(0.7, 2.1), "#fff", random.between(0.3, 0.95));
    }
    for _ in 0..3 {
        let fill = random.pick(&["#4de3a4", "#58c7e8", "#a678e8"]);
        let base = random.between(220.0, 400.0);
        let band = Hills::new(random, base, 90.0, 0.3);
        for (lift, opacity) in [(0.0, 0.16), (40.0, 0.12), (90.0, 0.08), (150.0, 0.05)] {
            put(&mut svg, format_args!("<path fill=\"{fill}\" opacity=\"{opacity}\" d=\"M0 {:.0}", band.at(0.0)));
            let points: Vec<f64> = (0..=30_u32).map(|step| f64::from(step) * WIDTH / 30.0).collect();
            points.iter().for_each(|x| put(&mut svg, format_args!("L{x:.0} {:.0}", band.at(*x))));
            let back = points.iter().rev();
            back.for_each(|x| put(&mut svg, format_args!("L{x:.0} {:.0}", band.at(*x) - 60.0 - lift)));
            svg.push_str("z\"/>");
        }
    }
    Hills::new(random, 610.0, 50.0, 1.0).draw(&mut svg, "#0b1a2b", 24);
    for _ in 0..26 {
        let x = random.between(0.0, WIDTH);
        let height = random.between(70.0, 170.0);
        put(
            &mut svg,
            format_args!(
                "<path fill=\"#060f1a\" d=\"M{x:.0} {:.0}l{:.0} {height:.0}h-{:.0}z\"/>",
                800.0 - height,
                height * 0.24,
                height * 0.48
            ),
        );
    }
    close(svg)
}

fn table(random: &mut Random) -> String {
    let cloth = *random.pick(&[
        ["#e8d8c3", "#dcc7ab", "#c9ae8c"],
        ["#cfd8d3", "#b9c7c0", "#9db0a7"],
        ["#e4cdd0", "#d4b4ba", "#bb969f"],
    ]);
    let mut svg = open(cloth);
    for line in 0..7 {
        let y = 60.0 + 110.0 * f64::from(line) + random.between(-10.0, 10.0);
        put(
            &mut svg,
            format_args!("<path stroke=\"#fff\" opacity=\".18\" stroke-width=\"3\" d=\"M0 {y:.0}H{WIDTH}\"/>"),
        );
    }
    let at = (random.between(430.0, 760.0), random.between(350.0, 460.0));
    disc(&mut svg, (at.0 + 14.0, at.1 + 18.0), 252.0, "#000", 0.12);
    disc(&mut svg, at, 250.0, "#fbf8f2", 1.0);
    disc(&mut svg, at, 188.0, "#efe9df", 1.0);
    let food = random.pick(&[
        ["#c8553d", "#f0a24a", "#7da453"],
        ["#4f7a4d", "#d9c36a", "#b5485d"],
        ["#8b5a3c", "#e6c79c", "#c97b84"],
    ]);
    for _ in 0..34 {
        let turn = random.between(0.0, std::f64::consts::TAU);
        let far = random.between(0.0, 150.0);
        let place = (at.0 + far * turn.cos(), at.1 + far * turn.sin());
        let radius = random.between(14.0, 40.0);
        let fill = *random.pick(food);
        disc(&mut svg, place, radius, fill, 0.92);
    }
    let cup = (at.0 + if at.0 > 600.0 { -390.0 } else { 390.0 }, at.1 - 190.0);
    for (radius, fill) in
        [(104.0, "#fbf8f2"), (86.0, "#f1ece4"), (74.0, *random.pick(&["#5d3a24", "#7a9a5b", "#b8692f"]))]
    {
        disc(&mut svg, cup, radius, fill, 1.0);
    }
    close(svg)
}
