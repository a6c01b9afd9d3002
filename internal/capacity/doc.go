// Package capacity says what locks cost a Redis, and what a load of them takes. The parts are
// measured; TestMeasure_MeasuredParts does that, and make capacity runs it. docs/operate/capacity.md shows them, with the
// formula.
//
// A core is the one on which Redis runs all commands. What is said of one holds for the machine on
// which the parts were measured: on another, all of them are longer or shorter by one factor, more or
// less. TestSimulate_Simulation shows that the formula holds for the client code as it is.
//
// It knows neither Redis nor locks: numbers go in, and come out.
package capacity
