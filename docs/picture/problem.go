package main

// Where the lanes of problem are: two servers and the bank, once without a lock and once with it.
const (
	leftA, leftBank, leftB    = 80, 220, 360
	rightA, rightBank, rightB = 540, 680, 820
)

// problem is what two requests do to one order, without a lock and with one.
func problem() string {
	c := newCanvas(900, 375, "Two requests pay one order")
	c.text(leftBank, 30, "middle", plain, "without a lock", "bold")
	c.box(leftA, 60, "request 1", ours)
	c.box(leftBank, 60, "order 42", plain)
	c.box(leftB, 60, "request 2", theirs)
	c.arrow(110, leftA, leftBank, "paid? no")
	c.arrow(140, leftB, leftBank, "paid? no")
	c.arrow(190, leftA, leftBank, "charge")
	c.arrow(220, leftB, leftBank, "charge")
	c.text(leftBank, 275, "middle", ours, "the customer pays twice", "bold")

	c.text(rightBank, 30, "middle", plain, "with redlatch", "bold")
	c.box(rightA, 60, "request 1", ours)
	c.box(rightBank, 60, "order 42", plain)
	c.box(rightB, 60, "request 2", theirs)
	c.bar(rightA, 95, 175, ours)
	c.arrow(110, rightA, rightBank, "paid? no")
	c.arrow(165, rightA, rightBank, "charge")
	c.text(rightB+12, 125, "start", pale, "waits", "normal")
	c.bar(rightB, 190, 230, theirs)
	c.arrow(215, rightB, rightBank, "paid? yes")
	c.text(rightBank, 275, "middle", theirs, "the customer pays once", "bold")

	c.footer(330, "The bar shows how long a request holds the lock of order 42.")
	c.footer(352, "The lock keeps the requests apart. The work checks whether the order is paid.")
	return c.String()
}
