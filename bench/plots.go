package main

import (
	"bytes"
	"image/color"
	"math"
	"os"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	plotWidth  = 18 * vg.Centimeter
	plotHeight = 11 * vg.Centimeter
	plotMargin = 1 * vg.Centimeter // at the right: gonum cuts off half of the last label
)

// Where Liberation Sans is missing, fonts as wide as it: with a wider one, labels overlap.
const (
	family   = "font-family:Liberation Sans"
	fallback = ",Arial,Helvetica,sans-serif"
)

// save draws a plot into a file, as SVG.
func save(p *plot.Plot, path string) error {
	c := vgsvg.New(plotWidth+plotMargin, plotHeight)
	whole := draw.New(c)
	whole.SetColor(color.White)
	whole.Fill(whole.Path())
	p.Draw(draw.Crop(whole, 0, -plotMargin, 0, 0))
	var svg bytes.Buffer
	if _, err := c.WriteTo(&svg); err != nil {
		return err
	}
	return os.WriteFile(path, bytes.ReplaceAll(svg.Bytes(), []byte(family), []byte(family+fallback)), 0o644)
}

// plots are the pictures of a run.
var plots = []struct {
	file, title string
	draw        func(all []result) (*plot.Plot, error)
}{
	{"throughput-distinct.svg", "Throughput, a key for each goroutine", func(all []result) (*plot.Plot, error) {
		return plotThroughput(all, "distinct", "One process, a key for each goroutine")
	}},
	{"throughput-hot.svg", "Throughput, one key", func(all []result) (*plot.Plot, error) {
		return plotThroughput(all, "hot", "One process, one key for all goroutines")
	}},
	{"waits.svg", "Wait times", plotWaits},
	{"commands.svg", "Redis commands per acquisition", plotCommands},
}

// Colors that also differ for the colour-blind (Okabe and Ito).
var colors = map[string]color.Color{
	ours:          color.RGBA{0xd5, 0x5e, 0x00, 0xff},
	"redsync":     color.RGBA{0x00, 0x72, 0xb2, 0xff},
	"redislock":   color.RGBA{0x00, 0x9e, 0x73, 0xff},
	"rueidislock": color.RGBA{0x56, 0x56, 0x56, 0xff},
}

var glyphs = map[string]draw.GlyphDrawer{
	ours:          draw.CircleGlyph{},
	"redsync":     draw.SquareGlyph{},
	"redislock":   draw.TriangleGlyph{},
	"rueidislock": draw.PyramidGlyph{},
}

func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.Padding, p.Legend.Padding = vg.Points(12), vg.Points(2)
	for _, style := range []*font.Font{
		&p.Title.TextStyle.Font, &p.Legend.TextStyle.Font,
		&p.X.Label.TextStyle.Font, &p.X.Tick.Label.Font, &p.Y.Label.TextStyle.Font, &p.Y.Tick.Label.Font,
	} {
		style.Variant = "Sans"
	}
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.XOffs, p.Legend.YOffs = vg.Points(8), -vg.Points(4)
	p.X.Padding, p.Y.Padding = vg.Points(8), vg.Points(8)
	p.Add(plotter.NewGrid())
	return p
}

// addLine draws a library's line.
func addLine(p *plot.Plot, library string, points plotter.XYs, marks bool) error {
	line, scatter, err := plotter.NewLinePoints(points)
	if err != nil {
		return err
	}
	line.Color, line.Width = colors[library], vg.Points(1.5)
	scatter.GlyphStyle = draw.GlyphStyle{Color: colors[library], Radius: vg.Points(3), Shape: glyphs[library]}
	p.Add(line)
	if !marks {
		p.Legend.Add(library, line)
		return nil
	}
	p.Add(scatter)
	p.Legend.Add(library, line, scatter)
	return nil
}

func plotThroughput(all []result, scenario, title string) (*plot.Plot, error) {
	p := newPlot(title, "goroutines", "acquire and release, per second")
	for _, library := range libraries {
		var points plotter.XYs
		for _, m := range measures(all, scenario) {
			if v, ok := m.at(library); ok && m.callers > 0 && v > 0 {
				points = append(points, plotter.XY{X: float64(m.callers), Y: v})
			}
		}
		if err := addLine(p, library, points, true); err != nil {
			return nil, err
		}
	}
	logarithmic(&p.X, 2)
	logarithmic(&p.Y, 10)
	return p, nil
}

// plotWaits shows which share of waits has ended after which time.
func plotWaits(all []result) (*plot.Plot, error) {
	p := newPlot("One key, 4 processes × 64 goroutines, 1 ms section", "waited at most, ms", "share of all waits, %")
	for _, r := range all {
		for _, library := range libraries {
			h := r.waits[library]
			if h == nil {
				continue
			}
			var points plotter.XYs
			for percent := 0.5; percent < 100; percent += 0.5 {
				points = append(points, plotter.XY{X: micros(h.ValueAtQuantile(percent)) / 1e3, Y: percent})
			}
			points = append(points, plotter.XY{X: micros(h.Max()) / 1e3, Y: 100})
			if err := addLine(p, library, points, false); err != nil {
				return nil, err
			}
		}
	}
	p.Y.Min, p.Y.Max = 0, 100
	p.Legend.Top, p.Legend.Left = false, false
	p.Legend.XOffs, p.Legend.YOffs = -vg.Points(44), vg.Points(8)
	logarithmic(&p.X, 10)
	return p, nil
}

// leastCommands is where the bars of plotCommands begin, as a power of ten: a logarithmic
// scale has no zero.
const leastCommands = -3

// plotCommands draws its bars as logarithms, since plotter's begin at zero.
func plotCommands(all []result) (*plot.Plot, error) {
	p := newPlot("Commands sent to Redis per acquisition", "", "commands")
	groups := []struct{ scenario, label string }{
		{"solo", "1 goroutine"}, {"hot", "256 goroutines, one key"}, {"crowd", "4 processes × 64, one key"},
	}
	const width = 30.0
	var texts []plot.Plotter
	for i, library := range libraries {
		values := make(plotter.Values, len(groups))
		labels := plotter.XYLabels{XYs: make(plotter.XYs, len(groups)), Labels: make([]string, len(groups))}
		for g, group := range groups {
			value := sentIn(all, group.scenario, library)
			values[g] = max(math.Log10(value), leastCommands) - leastCommands
			labels.XYs[g] = plotter.XY{X: float64(g), Y: values[g]}
			labels.Labels[g] = strconv.FormatFloat(value, 'g', 2, 64)
			if values[g] == 0 {
				labels.Labels[g] = "<0.001"
			}
		}
		bars, err := plotter.NewBarChart(values, vg.Points(width))
		if err != nil {
			return nil, err
		}
		bars.Color, bars.LineStyle.Width = colors[library], 0
		bars.Offset = vg.Points(width * (float64(i) - float64(len(libraries)-1)/2))
		text, err := plotter.NewLabels(labels)
		if err != nil {
			return nil, err
		}
		text.Offset.X, text.Offset.Y = bars.Offset, vg.Points(2)
		for i := range text.TextStyle {
			text.TextStyle[i].XAlign, text.TextStyle[i].Font.Variant = draw.XCenter, "Sans"
		}
		p.Add(bars)
		p.Legend.Add(library, bars)
		texts = append(texts, text)
	}
	p.Add(texts...) // upon the bars of the next library
	names := make([]string, len(groups))
	for i, g := range groups {
		names[i] = g.label
	}
	p.NominalX(names...)
	p.Y.Min, p.Y.Max = 0, 2.5-leastCommands
	var ticks plot.ConstantTicks
	for power := leastCommands; power <= 2; power++ {
		label := strconv.FormatFloat(math.Pow10(power), 'g', -1, 64)
		ticks = append(ticks, plot.Tick{Value: float64(power - leastCommands), Label: label})
	}
	p.Y.Tick.Marker = ticks
	return p, nil
}

// sentIn is the measure of a scenario that has a value for each library.
func sentIn(all []result, scenario, library string) float64 {
	for _, m := range measures(all, scenario) {
		if v, ok := m.at(library); ok && strings.HasPrefix(m.name, sentPerAcquisition) {
			return v
		}
	}
	return math.NaN()
}

func measures(all []result, scenario string) (found []*measure) {
	for _, r := range all {
		for _, m := range r.measures {
			if m.scenario == scenario {
				found = append(found, m)
			}
		}
	}
	return found
}

// logarithmic gives an axis a logarithmic scale, from a power of base to another. What is plotted
// was added before.
func logarithmic(a *plot.Axis, base float64) {
	power := func(v float64) float64 { return math.Log(v) / math.Log(base) }
	first, last := math.Floor(power(a.Min)+1e-9), math.Ceil(power(a.Max)-1e-9)
	a.Scale = plot.LogScale{}
	a.Min, a.Max = math.Pow(base, first), math.Pow(base, max(last, first+1))
	var ticks plot.ConstantTicks
	for v := a.Min; v <= a.Max*1.01; v *= base {
		ticks = append(ticks, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'f', -1, 64)})
	}
	a.Tick.Marker = ticks
}
