// Package browser tests the page of package guardweb in a real browser, a headless Chromium. It
// is a module of its own, so that nobody who imports redlatch gets the browser's driver.
package browser
