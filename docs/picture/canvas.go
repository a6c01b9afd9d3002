package main

import (
	"fmt"
	"html"
	"strings"
)

// Colors that also differ for the colour-blind (Okabe and Ito).
const (
	ours   = "#d55e00"
	theirs = "#0072b2"
	plain  = "#333333"
	pale   = "#777777"

	barWidth = 10
	edge     = 5 // from the middle of a lane to where its arrows end
)

// canvas is a picture of what goes between lanes. Time goes down, in pixels.
type canvas struct {
	strings.Builder
	height int
}

func newCanvas(width, height int, title string) *canvas {
	c := &canvas{height: height}
	c.add(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">`,
		width, height, width, height)
	c.add(`<title>%s</title>`, html.EscapeString(title))
	c.add(`<rect width="%d" height="%d" rx="8" fill="#ffffff"/>`, width, height)
	c.add(`<defs><marker id="tip" markerWidth="9" markerHeight="8" refX="8" refY="4" orient="auto">` +
		`<path d="M0,0L9,4L0,8Z" fill="` + plain + `"/></marker></defs>`)
	return c
}

func (c *canvas) add(format string, args ...any) {
	_, _ = fmt.Fprintf(c, format+"\n", args...)
}

// String closes the picture.
func (c *canvas) String() string { return c.Builder.String() + "</svg>\n" }

// box is a name at the top of a lane of its own height.
func (c *canvas) box(x, y int, name, color string) {
	c.add(`<line x1="%d" y1="%d" x2="%d" y2="250" stroke="#bbbbbb" stroke-dasharray="4 4"/>`, x, y, x)
	c.add(`<rect x="%d" y="%d" width="92" height="30" rx="6" fill="#ffffff" stroke="%s" stroke-width="2"/>`, x-46, y-15, color)
	c.text(x, y+5, "middle", color, name, "bold")
}

func (c *canvas) lane(x int, name, color string) {
	c.add(`<line x1="%d" y1="60" x2="%d" y2="%d" stroke="#bbbbbb" stroke-dasharray="4 4"/>`, x, x, c.height-75)
	c.add(`<rect x="%d" y="24" width="120" height="34" rx="6" fill="#ffffff" stroke="%s" stroke-width="2"/>`, x-60, color)
	c.text(x, 46, "middle", color, name, "bold")
}

func (c *canvas) arrow(y, from, to int, label string) {
	start, end := from+edge, to-edge
	if to < from {
		start, end = from-edge, to+edge
	}
	c.add(`<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="%s" marker-end="url(#tip)"/>`, start, y, end, y, plain)
	c.text((from+to)/2, y-5, "middle", plain, label, "normal")
}

// bar is the time for which a lane has the lock.
func (c *canvas) bar(x, from, to int, color string) {
	c.add(`<rect x="%d" y="%d" width="%d" height="%d" fill="%s"/>`, x-barWidth/2, from, barWidth, to-from, color)
}

// event is what happens in a lane, in a box upon it.
func (c *canvas) event(x, y int, label string) {
	c.add(`<rect x="%d" y="%d" width="260" height="26" rx="4" fill="#f4f4f4" stroke="#999999"/>`, x-130, y-17)
	c.text(x, y, "middle", plain, label, "normal")
}

// note is written on the outer side of a lane.
func (c *canvas) note(x, y int, label string) { c.outside(x, y, plain, label) }

func (c *canvas) aside(x, y int, label string) { c.outside(x, y, pale, label) }

func (c *canvas) outside(x, y int, color, label string) {
	if x < redis {
		c.text(x-12, y, "end", color, label, "normal")
		return
	}
	c.text(x+12, y, "start", color, label, "normal")
}

func (c *canvas) footer(y int, label string) { c.text(redis, y, "middle", pale, label, "normal") }

func (c *canvas) text(x, y int, anchor, color, label, weight string) {
	c.add(`<text x="%d" y="%d" text-anchor="%s" fill="%s" font-weight="%s">%s</text>`, x, y, anchor, color, weight, html.EscapeString(label))
}
