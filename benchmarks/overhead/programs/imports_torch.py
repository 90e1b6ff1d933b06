"""A program that only imports torch."""

import torch
