// Package httpcheck is HTTP_GET and SSL_GET: the server is healthy when it
// answers HTTP requests as wanted. See README.md for the rules.
package httpcheck
