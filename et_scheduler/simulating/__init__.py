"""Discrete events around the same planning: rules are tried here before they are believed."""
