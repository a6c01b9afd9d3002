// Package browser tests the page of package guardweb in a real browser, a headless Chromium. It
// is a module of its own, so that a program with redlatch does not get the browser's driver.
package browser
