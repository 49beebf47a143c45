"""Tests of the sensors, on recorded trees and recorded bytes."""
