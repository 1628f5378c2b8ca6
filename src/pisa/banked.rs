//! Registers that are swapped as a whole at the end of an epoch.

use super::{Array, ArrayCells, ArrayGroup, GroupRegisters, GroupSalu, Registers, Repeat, Salu, Stage, Then};

/// A stretch of the pipeline whose registers are swapped as a whole at the end of an epoch.
pub trait Banked {
    /// All its registers.
    type Bank: Send + 'static;
    /// Cleared registers of the right length.
    fn zeroed(&self) -> Self::Bank;
    /// Swaps the registers with `spare`, which came from a stretch of the same shape.
    fn exchange(&mut self, spare: &mut Self::Bank);
    fn clear(bank: &mut Self::Bank);
    /// Copies the content of each array, in the order of [`Pipeline::usage`](super::Pipeline::usage).
    fn read(bank: &Self::Bank, to: &mut Vec<ArrayCells>);
}

impl<S: Salu> Banked for Array<S> {
    type Bank = Registers<S::Cell>;

    fn zeroed(&self) -> Self::Bank {
        Registers::zeroed(self.len())
    }

    fn exchange(&mut self, spare: &mut Self::Bank) {
        Array::exchange(self, spare);
    }

    fn clear(bank: &mut Self::Bank) {
        bank.clear();
    }

    fn read(bank: &Self::Bank, to: &mut Vec<ArrayCells>) {
        to.push(bank.read());
    }
}

impl<S: GroupSalu<N>, const N: usize> Banked for ArrayGroup<S, N> {
    type Bank = GroupRegisters<S::Cell, N>;

    fn zeroed(&self) -> Self::Bank {
        GroupRegisters::zeroed(self.len())
    }

    fn exchange(&mut self, spare: &mut Self::Bank) {
        ArrayGroup::exchange(self, spare);
    }

    fn clear(bank: &mut Self::Bank) {
        bank.clear();
    }

    fn read(bank: &Self::Bank, to: &mut Vec<ArrayCells>) {
        to.extend(bank.read());
    }
}

impl<A: Banked> Banked for Stage<A> {
    type Bank = A::Bank;

    fn zeroed(&self) -> Self::Bank {
        self.0.zeroed()
    }

    fn exchange(&mut self, spare: &mut Self::Bank) {
        self.0.exchange(spare);
    }

    fn clear(bank: &mut Self::Bank) {
        A::clear(bank);
    }

    fn read(bank: &Self::Bank, to: &mut Vec<ArrayCells>) {
        A::read(bank, to);
    }
}

impl<A: Banked> Banked for Vec<A> {
    type Bank = Vec<A::Bank>;

    fn zeroed(&self) -> Self::Bank {
        self.iter().map(A::zeroed).collect()
    }

    fn exchange(&mut self, spare: &mut Self::Bank) {
        self.iter_mut().zip(spare).for_each(|(one, spare)| one.exchange(spare));
    }

    fn clear(bank: &mut Self::Bank) {
        bank.iter_mut().for_each(A::clear);
    }

    fn read(bank: &Self::Bank, to: &mut Vec<ArrayCells>) {
        bank.iter().for_each(|bank| A::read(bank, to));
    }
}

impl<P: Banked> Banked for Repeat<P> {
    type Bank = Vec<P::Bank>;

    fn zeroed(&self) -> Self::Bank {
        self.0.zeroed()
    }

    fn exchange(&mut self, spare: &mut Self::Bank) {
        self.0.exchange(spare);
    }

    fn clear(bank: &mut Self::Bank) {
        bank.iter_mut().for_each(P::clear);
    }

    fn read(bank: &Self::Bank, to: &mut Vec<ArrayCells>) {
        bank.iter().for_each(|bank| P::read(bank, to));
    }
}

impl<A: Banked, B: Banked> Banked for Then<A, B> {
    type Bank = (A::Bank, B::Bank);

    fn zeroed(&self) -> Self::Bank {
        (self.0.zeroed(), self.1.zeroed())
    }

    fn exchange(&mut self, spare: &mut Self::Bank) {
        self.0.exchange(&mut spare.0);
        self.1.exchange(&mut spare.1);
    }

    fn clear(bank: &mut Self::Bank) {
        A::clear(&mut bank.0);
        B::clear(&mut bank.1);
    }

    fn read(bank: &Self::Bank, to: &mut Vec<ArrayCells>) {
        A::read(&bank.0, to);
        B::read(&bank.1, to);
    }
}

macro_rules! tuple {
    ($($part:ident $field:tt),+) => {
        impl<$($part: Banked),+> Banked for ($($part,)+) {
            type Bank = ($($part::Bank,)+);

            fn zeroed(&self) -> Self::Bank {
                ($(self.$field.zeroed(),)+)
            }

            fn exchange(&mut self, spare: &mut Self::Bank) {
                $(self.$field.exchange(&mut spare.$field);)+
            }

            fn clear(bank: &mut Self::Bank) {
                $($part::clear(&mut bank.$field);)+
            }

            fn read(bank: &Self::Bank, to: &mut Vec<ArrayCells>) {
                $($part::read(&bank.$field, to);)+
            }
        }
    };
}

tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);
tuple!(A 0, B 1, C 2, D 3, E 4);
