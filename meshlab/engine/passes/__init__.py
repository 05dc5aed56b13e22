"""Passes rewrite a program's code: they flatten, fold, eliminate common subexpressions and normalize."""
